package prompt

// The grammar of the prose. A line "name: text" is one production of name; <slots> in the text are other names, word classes or
// numbers, <a> is the article that fits what follows. Sentences get their capital and full stop from the generator. <hero>, <town>
// and <trade> stay the same throughout a paragraph.
const grammar = `
thing: the <adj> <n>
thing: <a> <adj> <n>
thing: the <n> of the <role>
thing: the <mat> <n>
thing: <a> <mat> <n>
thing: the <adj> <mat> <n>
thing: <first> <last>'s <n>
thing: <a> <n> from <elsewhere>
thing: the <n> with the <adj> <n>
thing: the <n> behind the <n>
thing: <a> <n> as <adj> as the <creature>
thing: the <role>'s <adj> <n>
thing: the <n> that <first> <last> had <vt>
thing: either the <n> or the <adj> <n>
thing: every <n> between <elsewhere> and the <n>
things: <count> <adj> <ns>
things: <num> <ns> of <mat>
things: the <adj> <ns> of <elsewhere>
things: most of the <mat> <ns>
things: several <ns> and <a> <adj> <n>
things: <num> <units> of <mat>
things: the <ns> and <ns> of the <role>
object: <thing>
object: <thing>
object: <thing>
object: <things>
object: <thing> and <thing>
person: <hero>
person: <hero>
person: the <trade>
person: <first> <last>
person: <first> <last>
person: the <role>
person: the <adj> <role>
person: <first> the <role>
person: <a> <role> from <elsewhere>
person: the <role>'s <kin>
person: <first> <last>, <a> <adj> <role>,
people: the <roles> of <town>
people: <count> <adj> <roles>
people: <first> and <first> <last>
people: <hero> and the <role>
people: both <roles>
people: the <role> and the <adj> <role>
where: in <town>
where: in <elsewhere>
where: near the <n>
where: behind the <adj> <n>
where: at the <n> in <town>
where: on the road to <elsewhere>
where: beside the <n> of <first> <last>
where: above the <mat> <n>
where: between the <n> and the <n>
where: <num> <distance> from the <n>
where: among the <ns>
where: under <a> <adj> <n>
when: in the <season> of <year>
when: on the <day> of <month>
when: one <adj> <weekday>
when: before the <abs>
when: after the <adj> <abs>
when: during the <abs> of <year>
when: by the end of <month>
when: at <count> in the <part>
when: <num> days later
when: since <month> <year>
when: until the <abs> was over
when: on <weekday> <part>
event: <person> <vt> <object>
event: <person> <vt> <object>
event: <person> <adv> <vt> <object>
event: <person> <vi> <where>
event: <person> <vi> <adv> <where>
event: <thing> was <adv> <vt> by <person>
event: <thing> was <vt> <when>
event: <things> were <vt> <where>
event: <people> <vt> <object>
event: <people> <vi> <where>
event: the <creature> <vi> <where>
event: <person> <vt> <object> for <num> <money>
event: <person> <vt> <object> and <vi> <adv>
event: nobody <where> <vt> <object>
event: the <abs> of the <role> <vi> <adv>
reason: because <event>
reason: so that <person> never <vt> <object>
reason: out of <abs>
reason: for want of <mat>
reason: as <a> <abs> to <person>
reason: in spite of the <adj> <abs>
reason: without <abs> or <abs>
speech: the <n> was <adj>
speech: <event>
speech: no <role> ever <vt> <thing>
speech: the <abs> would be <adj>
speech: <num> <units> of <mat> were not enough
speech: every <creature> <where> had been <vt>
sentence: <event>, and <event>
sentence: <event>, but <event>
sentence: <event> <reason>
sentence: <event> <when>, <reason>
sentence: <When>, <event>
sentence: <When>, <event>, while <event>
sentence: <Where>, <event>
sentence: <Where> stood <thing>, and <event>
sentence: although <event>, <event>
sentence: when <event>, <person> <vi> <adv>
sentence: as soon as <event>, <event>
sentence: if <event>, then <event> as well
sentence: <person> said that <speech>
sentence: <person> wrote to <person> that <speech>, and that <speech>
sentence: according to the <adj> <n>, <event>
sentence: according to <person>, <speech>; <person> <vt> the <abs>
sentence: "<Speech>," said <person>, "and <speech>."
sentence: "<Speech>," <person> <says> <adv>, "or <speech>."
sentence: "Was it <thing> that <person> <vt>?" asked <person>.
sentence: why <person> <vt> <object> was <a> <abs> that <people> never <vt>
sentence: it took <num> <time> and <big> <money> before <event>
sentence: <thing> cost <num> <money>, <thing> only <num>
sentence: of the <big> <ns> that <people> <vt>, <num> were <adj> and <num> were <adj>
sentence: the <n> weighed <num> pounds, measured <num> inches and had <vt> <person> <when>
sentence: the <n>, which <person> had <vt> <when>, was now <adj> and <adj>
sentence: the <adj> <n>, the <mat> <n> and the <n> of <person> were <vt> <when>
sentence: <person>, who had <adv> <vt> <object>, <vi> <where>
sentence: <person> would rather have <vt> <thing> than <vt> <thing>
sentence: <person> was <adj>, <adj> and, <reason>, rather <adj>
sentence: not one of the <num> <roles> <vt> <object>; instead, <event>
sentence: neither <first> nor <first> <vt> <object>, yet <event>
sentence: there was <a> <abs> about <thing>, and <event>
sentence: there were <big> <ns> <where>, most of them <adj>, and <event>
sentence: nothing <vt> <person> more than <thing>, unless <event>
sentence: the <abs> began <when>; <event>
sentence: the <abs> lasted <num> <time>, and <people> <vi> <adv>
sentence: people <where> still speak of the <abs>, <when>, in which <event>
sentence: on page <num> of the <n> it is written that <speech>
sentence: house number <big> belonged to <person>, who <vt> <object> <where>
sentence: a <weekday> later, <event>, <reason>
sentence: from the <n> to the <n>, <event>
sentence: all that was left of <thing> was <thing>, which <person> <vt> <reason>
sentence: some <vt> the <adj> <n>, others <vt> the <mat> <n>, and <person> <vt> both
sentence: the more <person> <vt> <object>, the more the <creature> <vi>
sentence: for <num> <money> <a> <role> could have <vt> <object>
sentence: between <hour> and <hour>, <event>
sentence: that <speech> was <adj> news <where>
sentence: <town> had <big> <roles> then, and <num> of them <vt> <object>
sentence: <hero> <vt> the <abs> <adv>, <vt> <object> and <vi> <where>
sentence: perhaps <event>; perhaps, as <person> <says>, <event>
sentence: later <hero> <vt> how <event>
says: admitted
says: announced
says: claimed
says: declared
says: explained
says: insisted
says: noted
says: repeated
time: days
time: hours
time: minutes
time: months
time: weeks
time: years
distance: feet
distance: leagues
distance: metres
distance: miles
distance: yards
kin: aunt
kin: brother
kin: cousin
kin: daughter
kin: grandfather
kin: neighbour
kin: nephew
kin: niece
kin: partner
kin: rival
kin: sister
kin: son
kin: uncle
season: autumn
season: spring
season: summer
season: winter
part: afternoon
part: evening
part: morning
money: crowns
money: florins
money: guineas
money: pence
money: shillings
hour: noon
hour: dusk
hour: midnight
hour: sunrise
hour: <count> o'clock
hour: half past <count>
`

// closing ends every prompt: it asks for more of the same, so that base and chat models alike go on with prose.
const closing = "Continue the chronicle above in the same manner, with new people, places and events, for many more pages.\n\n"
