package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxPage bounds an answer that is no leg, in bytes; patience how long one is waited for: a server can be busy with a long
// forward pass before it answers.
const (
	maxPage = 16 << 20
	maxName = 4096 // of a model, in bytes
	// latestStart is in the year 2286.
	latestStart = 1e10
	patience    = 30 * time.Second
)

// modelList is the answer of /v1/models.
type modelList struct {
	Data []modelCard `json:"data"`
}

type modelCard struct {
	ID      string `json:"id"`
	Root    string `json:"root"`
	Parent  string `json:"parent"` // of a LoRA adapter
	OwnedBy string `json:"owned_by"`
	Context int    `json:"max_model_len"`
	Meta    struct {
		Context int `json:"n_ctx"`
	} `json:"meta"`
}

// named says whether a card has a name that requests can carry.
func (m modelCard) named() bool { return 0 < len(m.ID) && len(m.ID) <= maxName }

func (l modelList) owner() string {
	if len(l.Data) == 0 {
		return ""
	}
	return strings.ToLower(l.Data[0].OwnedBy)
}

// pick finds the configured model, by its name or else by what it was loaded from, or the first one where none is
// configured. An adapter has the context of the model that it adapts.
func (l modelList) pick(configured string) (picked modelCard, ok bool) {
	for _, fits := range []func(modelCard) bool{
		func(m modelCard) bool { return m.named() && (configured == "" || m.ID == configured) },
		func(m modelCard) bool { return m.named() && m.Root == configured },
	} {
		i := slices.IndexFunc(l.Data, fits)
		if i < 0 {
			continue
		}
		m := l.Data[i]
		if m.Context == 0 && m.Parent != "" {
			adapted, _ := modelList{slices.Delete(slices.Clone(l.Data), i, i+1)}.pick(m.Parent)
			m.Context = adapted.Context
		}
		return m, true
	}
	return modelCard{}, false
}

// Identify finds out what the server is and what it offers, never by overflowing it. Errors are *Error.
func (c *Client) Identify(ctx context.Context) (Facts, error) {
	list, err := c.models(ctx)
	if err != nil {
		return Facts{}, err
	}
	d := dialectNamed(c.options.Dialect)
	for _, candidate := range dialects() {
		if d == nil && candidate.recognises(ctx, c, list) {
			d = candidate
		}
	}
	f, err := c.listed(d, list)
	if err != nil {
		return Facts{}, err
	}
	if f.API == AutoAPI {
		f.API = d.apis()[0]
	}
	c.mu.Lock()
	if c.dialect != d || c.api == AutoAPI {
		c.api = f.API
	}
	f.API = c.api
	c.dialect, c.model = d, f.Model
	c.mu.Unlock()
	f.TokenIDs = d.takesIDs(f.API)
	d.describe(ctx, c, list, &f)
	if path, _ := d.tokenize(session{}, "", false); path != "" {
		_, err := c.tokens(ctx, d, session{model: f.Model}, "Hello", false)
		f.Tokenizer = err == nil
	}
	c.believe(&f)
	if ctx.Err() != nil {
		return Facts{}, (&exchange{connected: true}).broken(ctx, 0, ctx.Err())
	}
	return f, nil
}

// listed begins the facts with what the list of models says.
func (c *Client) listed(d dialect, list modelList) (Facts, error) {
	f := Facts{Dialect: d.name(), API: c.options.API, Settings: Settings{}}
	for _, m := range list.Data {
		if m.named() {
			f.Models = append(f.Models, m.ID)
		}
	}
	picked, ok := list.pick(c.options.Model)
	if !ok {
		return Facts{}, &Error{Class: ModelNotFound, Status: http.StatusOK, Message: oneLine(missingModel(c.options.Model, c.secrets.hide(strings.Join(f.Models, ", "))), c.secrets)}
	}
	f.Model, f.ContextLimit = picked.ID, picked.Context
	f.Settings.listed(picked)
	return f, nil
}

// Glance asks a server that Identify has recognised once more what it runs, and nothing else: it costs a few short answers.
// Of the facts that it gives, those that only Identify learns are missing. Errors are *Error.
func (c *Client) Glance(ctx context.Context) (Facts, error) {
	c.mu.Lock()
	d := c.dialect
	c.mu.Unlock()
	if d == nil {
		return c.Identify(ctx)
	}
	list, err := c.models(ctx)
	if err != nil {
		return Facts{}, err
	}
	f, err := c.listed(d, list)
	if err != nil {
		return Facts{}, err
	}
	d.describe(ctx, c, list, &f)
	c.believe(&f)
	return f, nil
}

// believe leaves out what cannot be: it is not known. Servers may tell what they were sent: no text leaves with a secret in it.
func (c *Client) believe(f *Facts) {
	for _, n := range []*int{&f.ContextLimit, &f.MaxPrompt, &f.KVPoolTokens, &f.PageSize, &f.BlockSize, &f.Replicas, &f.StreamEvery} {
		if *n < 0 || *n > mostCount {
			*n = 0
		}
	}
	if f.BlockSize > mostOvershoot {
		f.BlockSize = 0
	}
	for _, s := range []*string{&f.ServerVersion, &f.Speculation, &f.Attention} {
		*s = oneLine(*s, c.secrets)
	}
	for name, value := range f.Settings {
		f.Settings[name] = oneLine(value, c.secrets)
	}
	f.Model = c.secrets.hide(f.Model)
	for i, model := range f.Models {
		f.Models[i] = c.secrets.hide(model)
	}
	if !(f.Started > 0 && f.Started < latestStart) {
		f.Started = 0
	}
}

// models reads the list of models. Where the model is configured, a server needs none: some gateways have no list, and a
// wrong base URL shows at the first leg.
func (c *Client) models(ctx context.Context) (modelList, error) {
	var list modelList
	err := c.getJSON(ctx, "/v1/models", &list)
	told, ok := errors.AsType[*Error](err)
	if ok && told.Status == http.StatusNotFound && c.options.Model != "" {
		return modelList{[]modelCard{{ID: c.options.Model}}}, nil
	}
	return list, err
}

// version is what a page of nothing but the version says, "" where there is none.
func (c *Client) version(ctx context.Context, path string) string {
	var page struct {
		Version string `json:"version"`
	}
	if c.getJSON(ctx, path, &page) != nil {
		return ""
	}
	return page.Version
}

func missingModel(model, served string) string {
	if served == "" {
		return "the server lists no model"
	}
	return fmt.Sprintf("model %.100q is not served here; served: %.150s", model, served)
}

// get and post fetch what is no leg; getJSON also decodes it. Their errors are *Error.
func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	return c.fetch(ctx, c.exchange(), http.MethodGet, path, nil)
}

func (c *Client) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.fetch(ctx, c.exchange(), http.MethodPost, path, body)
}

func (c *Client) getJSON(ctx context.Context, path string, to any) error {
	x := c.exchange()
	page, err := c.fetch(ctx, x, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(page, to); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil // what is of another type than expected is not known
		}
		return x.fail(Protocol, http.StatusOK, err, "%s%s answered %s", c.base, path, x.describe(page))
	}
	return nil
}

func (c *Client) fetch(ctx context.Context, x *exchange, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(x.trace(ctx), method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, x.fail(BadRequest, 0, err, "%v", err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, x.broken(ctx, 0, err)
	}
	defer resp.Body.Close()
	c.notice(resp.Header)
	stream, _, err := decoded(resp.Body, resp.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, x.broken(ctx, resp.StatusCode, err)
	}
	page, err := io.ReadAll(io.LimitReader(stream, maxPage+1))
	if err != nil {
		return nil, x.broken(ctx, resp.StatusCode, err)
	}
	if len(page) > maxPage {
		return nil, x.fail(Protocol, resp.StatusCode, nil, "%s answered more than %d MiB: is this the API's base URL?", path, maxPage>>20)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, x.refused(classify(resp.StatusCode, page), resp)
	}
	return page, nil
}

// refused is the Error of an answer that is no 200.
func (x *exchange) refused(e serverError, resp *http.Response) *Error {
	path, said := resp.Request.URL.Path, ": "+e.text
	if e.text == "" {
		said = " with an empty body"
	}
	hint := ""
	switch {
	case 300 <= e.status && e.status < 400:
		to := "elsewhere"
		if u, err := resp.Location(); err == nil {
			to = u.Scheme + "://" + u.Host + u.Path
		}
		hint, said = " and redirects to "+to+", which is not followed: set that as the url", ""
	case e.class == Auth:
		hint = ", so it wants credentials, or other ones"
	case e.class == TLS:
		hint = " because the port speaks TLS, use an https:// URL"
	case e.class == Protocol && e.status == http.StatusNotFound:
		hint = ", is this the API's base URL?"
	}
	failed := x.fail(e.class, e.status, nil, "%s answered HTTP %d%s%s", path, e.status, hint, said)
	failed.Limit = e.limit
	return failed
}
