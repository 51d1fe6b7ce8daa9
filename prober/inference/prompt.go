package inference

// Prompt is a prompt as it stands in a request body: a JSON array of token ids or a JSON string, marshalled once and shared
// by every leg that sends it.
type Prompt struct {
	json []byte
	text bool
}

// IDPrompt is a prompt of token ids.
func IDPrompt(ids []int32) Prompt { panic("under construction") }

// TextPrompt is a prompt of text.
func TextPrompt(text string) Prompt { panic("under construction") }
