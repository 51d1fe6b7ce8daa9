package inference

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Tokenize gives the ids of text by the server's own tokenizer, without special tokens, and the id of the beginning-of-sequence token
// that the server puts before a text prompt, -1 where it puts none.
func (c *Client) Tokenize(ctx context.Context, text string) (ids []int32, bos int32, err error) {
	d, _, s, err := c.ready(ctx)
	if err != nil {
		return nil, 0, err
	}
	ids, err = c.tokens(ctx, d, s, text, false)
	if err != nil {
		return nil, 0, err
	}
	bos, err = c.bos(ctx, d, s)
	if err != nil {
		return nil, 0, err
	}
	return ids, bos, nil
}

// bos compares a short text with and without special tokens.
func (c *Client) bos(ctx context.Context, d dialect, s session) (int32, error) {
	const short = "Hello world"
	bare, err := c.tokens(ctx, d, s, short, false)
	if err != nil {
		return 0, err
	}
	_, without := d.tokenize(s, short, false)
	if _, with := d.tokenize(s, short, true); maps.Equal(with, without) {
		return c.commonStart(ctx, d, s, bare)
	}
	full, err := c.tokens(ctx, d, s, short, true)
	if err != nil {
		return 0, err
	}
	if len(full) > len(bare) && slices.Equal(full[1:1+len(bare)], bare) && !slices.Equal(full[:len(bare)], bare) {
		return full[0], nil
	}
	return -1, nil
}

// commonStart is the id that texts with nothing in common begin with, where a tokenizer leaves no choice of special tokens.
func (c *Client) commonStart(ctx context.Context, d dialect, s session, ids []int32) (int32, error) {
	other, err := c.tokens(ctx, d, s, "A plain day", false)
	if err != nil {
		return 0, err
	}
	if len(ids) > 1 && len(other) > 1 && ids[0] == other[0] {
		return ids[0], nil
	}
	return -1, nil
}

func (c *Client) tokens(ctx context.Context, d dialect, s session, text string, special bool) ([]int32, error) {
	path, body := d.tokenize(s, text, special)
	if path == "" {
		return nil, &Error{Class: BadRequest, Message: fmt.Sprintf("dialect %s has no tokenizer endpoint", d.name())}
	}
	request, err := json.Marshal(body)
	if err != nil {
		return nil, &Error{Class: BadRequest, Message: "marshalling the text to tokenize", Err: err}
	}
	page, err := c.post(ctx, path, request)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Tokens   []json.Number `json:"tokens"`
		InputIDs []json.Number `json:"input_ids"`
	}
	err = json.Unmarshal(page, &answer)
	if answer.Tokens == nil {
		answer.Tokens = answer.InputIDs
	}
	if err != nil || answer.Tokens == nil {
		return nil, &Error{Class: Protocol, Status: 200, Message: path + " answered no list of token ids", Err: err}
	}
	return narrowed(path, answer.Tokens)
}

// narrowed turns ids into 32 bits. Some look-alikes of servers have ids that are hashes, beyond any vocabulary.
func narrowed(path string, tokens []json.Number) ([]int32, error) {
	ids := make([]int32, len(tokens))
	for i, t := range tokens {
		n, err := t.Int64()
		if err != nil || n < 0 || n > math.MaxInt32 {
			return nil, &Error{Class: Protocol, Status: 200, Message: fmt.Sprintf("%s answered the token id %.24s, which no vocabulary has: use prompts of text", path, t)}
		}
		ids[i] = int32(n)
	}
	return ids, nil
}
