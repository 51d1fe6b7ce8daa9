package prompt

// The vocabulary of the prose, one list a word class, words separated by blanks. All are plain ASCII; those that can follow
// an article take "an" exactly where they begin with a vowel letter.
const (
	nouns = `anchor apple apron arch archive armchair arrow ash attic axle bag bakery balcony bandage banner barge barn barometer barrel
basin basket beacon bell bench bicycle blanket boat bolt book bottle boulder bowl bracket branch brick bridge broom bucket buoy cabin
cable candle canoe canvas cap card carpet cart carving castle cellar chain chair chalkboard chapel chart chest chimney chisel cider clock
cloth coat coin compass copper cottage counter courtyard crane crate crown cup curtain dam desk diary dictionary dock door drain drawer drum
easel embankment engine envelope fence ferry field fiddle file flag flask flute forge fountain frame furnace garden garland gate gauge glove
granary gravestone greenhouse grindstone hammer hammock harbour harness hat hatch hedge helmet hinge horseshoe icebox inkwell jacket jar jetty
kettle key kiln kitchen kite label ladder lamp lantern latch lathe ledger lens letter lever lighthouse lock locomotive loom machine map marble
mast mattress medal microscope mill mirror monument mooring mosaic motor mural museum necklace net notebook oar oven paddle painting pamphlet
parcel pavement pendulum piano picture pier pillow pipe plank plate plough pocket portrait postcard pot press pump quarry quilt rack raft
railing rake ramp recipe reed reservoir ribbon road roof rope rudder rug sail sample satchel saw scale scarf scroll seal shed shelf shovel
shutter sign signal sketch sled spade spindle spoon spring stable staircase stamp statue stove street suitcase sundial sword table tank
tapestry telegram telescope tent theatre thimble thread ticket tile timetable tool tower tractor tram trapdoor tray trellis trumpet trunk tube
tunnel turbine umbrella valve vault veranda vessel violin wagon wall wardrobe watch waterwheel weathervane well wharf wheel whistle windmill
window wire workshop yard`

	abstracts = `accident account advice agreement ambition answer apology argument arrangement attempt bargain belief caution
ceremony claim comfort complaint confidence courage custom danger debate decision delay demand discovery doubt effort election emergency
errand example excuse experiment failure fear festival habit harvest holiday idea improvement inquiry invention invitation journey joke
judgement legend lesson loan lottery memory method mistake mystery neglect notion objection offer opinion ordeal outcome patience plan
pleasure practice prediction preference problem promise proof proposal protest puzzle quarrel question reason recovery refusal regret remark
remedy repair report request result reward riddle risk routine rumour scandal scheme search season secret setback shortage silence sorrow story
strike success superstition surprise survey suspicion task theory threat tradition training treaty trial trick triumph trouble verdict victory
visit vote voyage wager warning weakness wedding wish worry`

	materials = `alabaster amber ash bamboo barley brass bronze canvas cedar cement chalk charcoal clay coal coral cork cotton crystal
ebony enamel felt flannel flax flint glass gold granite gravel hay hemp iron ivory jade lace lead leather lime linen maple marble mortar mud
nickel oak oats paper parchment peat pewter pine plaster porcelain quartz resin rice rubber rye salt sand sandstone silk silver slate soap
steel straw sugar tar teak tin tobacco velvet walnut wax wheat willow wool zinc`

	roles = `accountant actor apprentice archer architect astronomer baker banker barber beekeeper blacksmith boatman bookbinder botanist
brewer bricklayer butcher captain caretaker carpenter cartographer chemist clerk clockmaker cobbler collector conductor cook
cooper courier curator dancer dentist deputy diver doctor draughtsman drummer editor engineer engraver farmer ferryman fiddler fisherman
florist forester gardener geologist glassblower goldsmith governor grocer guard guide gunsmith historian hunter innkeeper inspector inventor
janitor jeweller journalist judge juggler lamplighter landlord lawyer librarian locksmith magistrate mason mayor mechanic
merchant messenger midwife miller miner minister musician navigator novelist nurse optician orchardist organist painter pharmacist
photographer pilot plumber poet porter postman potter printer professor quartermaster ranger registrar sailor schoolteacher sculptor
secretary sergeant sexton shepherd shipwright shopkeeper signalman singer smuggler soldier stationmaster stonecutter surgeon surveyor tailor
tanner telegraphist tinker trader translator treasurer trumpeter vicar violinist volunteer watchman weaver widow woodcutter zoologist`

	firsts = `Abel Ada Agnes Alba Albert Alfred Alice Amos Anna Anton Arthur Astrid Basil Beatrice Bela Bernard Bertha Boris Bruno
Camille Carl Cecily Celeste Clara Clement Conrad Cora Cyril Dagmar Daphne Dora Edgar Edith Edmund Elias Elsa Emil Enid Erik Esther Ethel
Eugene Felix Flora Frances Frieda Gaston George Gerda Gilbert Greta Gustav Hannah Harold Hedwig Helen Henrik Herman Hilda Hugo Ida Igor Ines
Ingrid Irene Isaac Ivan Jakob Jasper Joan Johanna Josef Judith Julia Karin Klara Konrad Laura Leo Leonora Lilian Linus Lotte Louis Lucia
Ludwig Lydia Mabel Magnus Marcus Margit Maria Martha Martin Matilda Maurice Max Minna Miriam Moritz Nadia Nathan Nina Nora Norbert Olga
Oliver Oscar Otto Paula Percy Peter Petra Philip Rafael Ralph Rebecca Reuben Rita Robert Roland Rosa Rupert Ruth Samuel Selma Sidney Sigrid
Simon Sofia Stella Sylvia Teresa Theodor Thomas Tilda Tobias Ursula Valentin Vera Victor Viola Walter Wanda Werner Wilma Winifred Yvonne`

	lasts = `Abbott Ackerley Aldous Amberg Anstey Ashdown Attwell Bannister Barlow Beckmann Bellamy Berglund Birch Blackwood Bloom Bohm
Brandt Bristow Brockway Cadbury Carver Castellan Chadwick Clay Coombe Corrigan Crane Cutler Dahl Dalby Darrow Denholm Dietrich Dorsey Draper
Eastman Eckhart Ellery Engel Fairfax Falk Fenwick Fielding Fisk Forsberg Foxley Gantry Garland Gedney Goddard Granger Grimshaw Haldane Halvorsen
Hargrave Hartmann Hawthorn Hedlund Holloway Hobart Ingham Ivory Jansen Jarvis Jessop Karlsen Keller Kendrick Kingsley Kirkby Klein Knapp
Lambert Langley Larkin Lindqvist Lockwood Lorimer Madsen Marlow Marsh Mercer Merrick Mostyn Nesbit Newcombe Nilsson Norwood Oakley Orton
Osgood Palmer Pembroke Penrose Pickering Platt Prescott Quill Radley Rainer Ramsey Redfern Rhodes Rossi Rowntree Sandoval Savage Scholl Selby
Shelley Sinclair Sorensen Stanhope Sterling Strand Summers Swann Tasker Thorne Tillman Trevor Tully Underhill Vance Vickers Vogel Wadsworth
Wainwright Weller Westbrook Whitlock Winslow Wolff Woodward Wren Yardley Zeller Zimmer`

	towns = `Aldermoor Amberley Arnsdal Ashcombe Balmora Barrowgate Beechwick Belmont Birkholm Blackfield Bramford Brightwater
Cairnhill Calderbrook Castlemere Cedarville Chalkdown Cliffend Coldharbour Copperton Crosswell Dalmore Deepwater Dovecote Drumlin Dunmere
Eastbourne Edenvale Elderfield Elmstead Fairhaven Falconridge Fernhill Foxbridge Frostburg Glenmore Goldcrest Grantham Greenwick Grimsfell
Hallowdene Harrowby Hartsea Hazelmere Highgate Hollowell Ironbridge Ivybridge Kelmscott Kestrelford Kingsport Lakemouth Larkhill Lindenau
Longacre Lowmarsh Maplewood Marlstone Meadowbank Millbrook Moorgate Netherby Newhaven Northwold Oakhurst Oldcastle Orchardton Otterburn
Penmarsh Pinewood Plumstead Queensferry Quernmore Ravenswood Redcliff Riverton Rockingham Rosedale Rushmere Saltmarsh Sandwick Seaforth
Shellbay Silverdale Southwell Stillwater Stonebridge Stratton Summerhill Swanmouth Thornbury Timberlake Tollgate Umberleigh Valemount
Wainfleet Waterford Westerly Wheatley Whitcombe Wildwood Willowby Windermoor Winterbourne Woodstock Yarrow`

	adjectives = `abandoned able absent ancient anxious ashen awkward bare barren battered bent bitter blank bleak blunt bold borrowed brave
brief bright brisk brittle broad broken bulky busy calm careful careless charming cheap cheerful chilly clean clever clumsy coarse cold common
cracked crooked crowded crude curious damaged damp dangerous dark deep delicate dense dim distant doubtful dreary dry dull dusty eager early
elaborate elegant empty enormous exact expensive faded faint faithful false familiar famous fancy favourite fierce fine firm flat foolish
foreign forgotten fragile frail frequent fresh frozen full generous gentle gloomy golden graceful grand grateful grave greasy green grey
grim handsome handy harsh hasty heavy hidden hollow humble hungry idle important innocent jagged jealous keen large late lazy lean little
lively lonely long loose lost loud lucky massive mild modest muddy mysterious narrow neat nervous new noble noisy northern obvious odd old
open ordinary ornate painted pale patient peculiar plain pleasant polished polite poor precious private proud pure quaint quick quiet rare
raw reckless red reliable remote rich rigid ripe rough round rude rusty sacred safe scarce scarlet secret shabby shallow sharp shiny short
shy silent simple sincere sleepy slender slow small smooth sober soft solid sombre sour southern spare splendid square stained steady steep
stern sticky stiff strange strict strong stubborn sturdy sudden sunny suspicious sweet swift tall tangled tender thick thin thorough tidy
timid tiny tired torn tough tranquil trusty twisted ugly uneven unhappy unlikely vague valuable vast violent vivid warm wary weak wealthy
weary western wet white wicked wide wild wise wooden worn yellow young`

	transitive = `abandoned accepted admired adjusted altered answered arranged assembled auctioned balanced blamed blessed borrowed bought
broadcast brought brushed built buried burned carried carved catalogued caught checked claimed cleaned collected compared completed
concealed considered copied corrected counted covered crossed damaged decorated defended delivered demanded demolished described designed
destroyed discovered discussed divided doubted dragged drained emptied enlarged examined exchanged exhibited explained explored fastened feared
fetched filled finished folded followed found framed gathered guarded hauled heard held hired honoured identified ignored imported improved
inherited inspected insured invented kept labelled launched lifted lit located locked lost lowered made measured mended mentioned missed
moved named noticed obtained offered opened ordered packed painted patched photographed placed planned planted polished postponed praised
preserved printed promised protected published pulled purchased pushed raised received recommended recorded refused rejected released
remembered removed rented repaired repeated replaced rescued restored returned rolled salvaged saved scraped scrubbed searched sealed sent
sharpened shipped signed sketched sold sorted spoiled stored straightened studied supplied surveyed tested told touched traced trained
translated trusted twisted unlocked unpacked used valued visited wanted warned washed watched weighed welcomed wrapped`

	intransitive = `agreed apologised argued arrived ate awoke bowed climbed coughed cried danced dozed drifted drowned escaped fainted
fell fished frowned gambled gossiped grumbled hesitated hummed hurried knelt laughed limped listened marched mumbled nodded objected panicked
paused prayed protested quarrelled rested retired retreated rode sang sat shivered shouted shrugged sighed sketched slept slipped smiled smoked
sneezed sobbed stammered stayed stood stumbled swam swore travelled trembled vanished waited walked wandered wept whispered whistled worked
worried yawned yelled`

	adverbs = `abruptly afterwards anxiously bitterly blindly boldly bravely briefly briskly calmly carefully carelessly cautiously
cheerfully clumsily coldly constantly courteously cruelly deliberately discreetly doubtfully eagerly earnestly easily eventually faintly
faithfully fiercely finally firmly foolishly formally frequently gently gladly gradually gravely greedily grimly happily hastily heavily
honestly hurriedly idly immediately impatiently innocently instantly joyfully kindly lazily loudly merrily modestly mysteriously narrowly
nervously noisily obediently occasionally openly painfully patiently politely promptly proudly quickly quietly rapidly rarely readily
recklessly regularly reluctantly repeatedly rudely sadly secretly seldom separately seriously sharply silently skilfully slowly smoothly
softly solemnly steadily sternly stubbornly suddenly swiftly tenderly thoroughly timidly unexpectedly urgently vaguely warmly wearily wildly
wisely`

	creatures = `ant antelope badger bat bear beaver bee beetle bull butterfly camel canary cat cow crab cricket crow cuckoo deer dog
dolphin donkey dragonfly duck eagle eel elephant falcon finch fox frog goat goose hare hawk hedgehog hen heron horse jackdaw kingfisher lamb
lizard lobster magpie mole moth mule newt nightingale otter owl ox oyster parrot peacock pelican pheasant pig pigeon pike pony rabbit ram raven
robin rook salmon seagull seal sheep snail sparrow spider squirrel stork swallow swan tern thrush toad tortoise trout turtle vole vulture wasp
weasel whale wolf woodpecker wren`

	months   = `January February March April May June July August September October November December`
	weekdays = `Monday Tuesday Wednesday Thursday Friday Saturday Sunday`
	counts   = `two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty`
	units    = `barrels baskets bottles boxes bundles bushels cartloads crates drums gallons grams kilograms litres loads ounces parcels
pints pounds sacks tons`

	// Short, common words, a single token for most tokenizers, so that every nonce has about the same length. There are 256.
	nonceWords = `able acid aged also area army away baby back ball band bank base bath bear beat been bell best bird blow blue boat body
bond bone book born both bowl bulk burn busy cake call calm came camp card care case cash cast cell chat city club coal coat code cold come
cook cool copy core corn cost crew crop dark data date dawn days dead deal dear debt deep desk diet door down draw drop drug dual duke dust
duty each earn east easy edge else even ever face fact fair fall farm fast fate fear feed feel feet file fill film find fine fire firm fish
five flat flow food foot form fort four free from fuel full fund gain game gate gave gear gift girl give glad goal goes gold gone good gray
grew grow gulf hair half hall hand hang hard harm have head hear heat held help here hero high hill hire hold hole holy home hope host hour
huge hunt idea inch into iron item join jump jury just keen keep kept kick kind king knee know lack lady laid lake land lane last late lead
left less life lift like line link list live load loan lock long look lord lose loss lost love luck made mail main make male many mark mass
meal mean meat meet menu mere mild mile milk mind mine miss mode mood moon more most move much must name near neat neck need news next nice nine none nose note okay once only open`
)
