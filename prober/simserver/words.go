package simserver

// continuationWords are the ids that answers are made of: plain words with their leading blank.
func continuationWords(t *tokenizer) []int32 {
	return t.encode(" the of and to in that it was he his for with as had not be at on by which him from or an were" +
		" this they would been their there all one could when who what out said into no them then some more now" +
		" only other time very about over after such before down little through where good never own might old" +
		" great long again without place came made much way well here under last house night day eyes hand head" +
		" thought nothing found life away went called turned seemed looked moment people water light door white" +
		" sea wind river stone morning winter summer garden letter table window silence answer question paper" +
		" captain doctor mother brother child friend village street country mountain harbour island road")
}
