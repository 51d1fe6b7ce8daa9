// Package prompt makes prompts of a wanted length in tokens: a nonce first, so that no prefix cache serves one request with
// another's prefill, then the end of one long natural text, so that every length is judged by the same subject.
package prompt
