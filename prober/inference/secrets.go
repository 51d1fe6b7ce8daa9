package inference

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/common/config"
)

// shortestSecret is in characters: what is shorter is found in any text.
const shortestSecret = 4

// ownHeader says whether a header field is one that every request carries; configured ones may hold secrets.
func ownHeader(key string) bool {
	switch strings.ToLower(key) {
	case "host", "user-agent", "accept", "accept-encoding", "content-type", "content-length", "connection", "referer",
		"x-data-parallel-rank", "x-session-id", ":authority", ":method", ":path", ":scheme":
		return true
	}
	return false
}

// mostSecrets are remembered of those that were sent: tokens come and go.
const mostSecrets = 64

// secrets are what must not be shown of what a client sends. The zero value and nil have none. They are safe for concurrent use.
type secrets struct {
	mu    sync.Mutex
	fixed []string
	sent  []string // the latest, oldest first
	forms []string // of both, in which they may come back; longest first, so that what holds another goes as a whole
}

func newSecrets(fixed []string) *secrets {
	s := &secrets{fixed: fixed}
	s.arrange()
	return s
}

// see takes in the values of a header field that was sent.
func (s *secrets) see(values []string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.sent)
	for _, secret := range secretsOf(values) {
		if !slices.Contains(s.sent, secret) {
			s.sent = append(s.sent, secret)
		}
	}
	if len(s.sent) > before {
		s.sent = slices.Clone(s.sent[max(0, len(s.sent)-mostSecrets):])
		s.arrange()
	}
}

// arrange finds the forms. The caller holds mu.
func (s *secrets) arrange() {
	s.forms = nil
	for _, secret := range slices.Concat(s.fixed, s.sent) {
		s.forms = append(s.forms, formsOf(secret)...)
	}
	s.forms = slices.DeleteFunc(s.forms, func(form string) bool { return len(form) < shortestSecret })
	slices.SortFunc(s.forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	s.forms = slices.Compact(s.forms)
}

// hide makes text one clean line without secrets. Characters that cannot be seen go first: they could part a secret.
func (s *secrets) hide(text string) string {
	text = clean(text)
	if s == nil {
		return text
	}
	s.mu.Lock()
	forms := s.forms
	s.mu.Unlock()
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, "<secret>")
	}
	return text
}

// clean is text as one line of visible characters. What stands for invalid UTF-8 goes too.
func clean(text string) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(visible), " ")
}

// formsOf are the ways in which a server writes text that it was sent, as it is shown: escaped for JSON, once or twice, for a
// URL and for HTML.
func formsOf(secret string) []string {
	quoted := inner(strconv.Quote(secret))
	encoded, _ := json.Marshal(secret) // a string has no error
	forms := []string{
		secret, quoted, inner(strconv.Quote(quoted)), inner(strconv.QuoteToASCII(secret)), inner(string(encoded)),
		strings.ReplaceAll(quoted, "/", `\/`), url.QueryEscape(secret), url.PathEscape(secret), url.User(secret).String(), html.EscapeString(secret),
	}
	for i, form := range forms {
		forms[i] = clean(form)
	}
	return forms
}

// inner is text without its quotes.
func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// secretsOf are header values and their parts after a scheme such as Bearer; of basic authentication also what they encode.
func secretsOf(values []string) []string {
	var found []string
	for _, v := range values {
		scheme, credentials, _ := strings.Cut(v, " ")
		credentials = strings.TrimSpace(credentials)
		found = append(found, v, credentials)
		if login, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
			_, password, _ := strings.Cut(string(login), ":")
			found = append(found, string(login), password)
		}
	}
	return slices.DeleteFunc(found, func(s string) bool { return len(s) < shortestSecret })
}

// unseenSecrets are those that are sent where an exchange does not see them, to a proxy and to a token endpoint, in the forms
// in which they are sent.
func unseenSecrets(c config.HTTPClientConfig, base string) []string {
	var unseen []string
	if c.OAuth2 != nil {
		unseen = append(unseen, string(c.OAuth2.ClientSecret), string(c.OAuth2.ClientCertificateKey), basic(c.OAuth2.ClientID, string(c.OAuth2.ClientSecret)))
		for _, v := range c.OAuth2.EndpointParams {
			unseen = append(unseen, v)
		}
	}
	for _, values := range c.ProxyConnectHeader {
		for _, v := range values {
			unseen = append(unseen, secretsOf([]string{string(v)})...)
		}
	}
	if proxy := proxyOf(c, base); proxy != nil && proxy.User != nil {
		password, _ := proxy.User.Password()
		unseen = append(unseen, proxy.User.String(), proxy.User.Username()+":"+password, password, basic(proxy.User.Username(), password))
	}
	for _, s := range unseen {
		unseen = append(unseen, url.QueryEscape(s)) // as OAuth2 encodes it before it encodes it again
	}
	return unseen
}

// basic is what basic authentication sends.
func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// proxyOf is the proxy of requests to a server, nil where there is none.
func proxyOf(c config.HTTPClientConfig, base string) *url.URL {
	request, err := http.NewRequest(http.MethodGet, base, nil)
	if err != nil || c.ProxyURL.URL == nil && !c.ProxyFromEnvironment {
		return nil
	}
	proxy, err := c.Proxy()(request)
	if err != nil {
		return nil
	}
	return proxy
}
