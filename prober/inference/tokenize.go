package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
		Tokens   tokenIDs `json:"tokens"`
		InputIDs tokenIDs `json:"input_ids"`
	}
	err = json.Unmarshal(page, &answer)
	if answer.Tokens == nil {
		answer.Tokens = answer.InputIDs
	}
	if alien := alienID(""); errors.As(err, &alien) {
		return nil, &Error{Class: Protocol, Status: 200, Message: path + " answered " + alien.Error()}
	}
	if err != nil || answer.Tokens == nil {
		return nil, &Error{Class: Protocol, Status: 200, Message: path + " answered no list of token ids", Err: err}
	}
	return answer.Tokens, nil
}

// tokenIDs are decoded by hand: a long list as numbers of encoding/json takes ten times its memory.
type tokenIDs []int32

// alienID is what stands in place of a token id. Some look-alikes of servers have ids that are hashes, beyond any vocabulary.
type alienID string

func (a alienID) Error() string {
	return fmt.Sprintf("the token id %.24s, which no vocabulary has: use prompts of text", string(a))
}

func (t *tokenIDs) UnmarshalJSON(list []byte) error {
	list, ok := bytes.CutPrefix(list, []byte("["))
	if !ok {
		return nil // something else is no list
	}
	list = bytes.TrimSpace(bytes.TrimSuffix(list, []byte("]")))
	*t = make(tokenIDs, 0, bytes.Count(list, []byte(","))+1)
	if len(list) == 0 {
		return nil
	}
	for id := range bytes.SplitSeq(list, []byte(",")) {
		id = bytes.TrimSpace(id)
		n, err := strconv.ParseUint(string(id), 10, 31)
		if err != nil {
			return alienID(id)
		}
		*t = append(*t, int32(n))
	}
	return nil
}
