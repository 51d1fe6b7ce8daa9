package inference

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

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

// secretsOf are header values and their parts after a scheme such as Bearer, where they are long enough to be secrets.
func secretsOf(values []string) []string {
	var secrets []string
	for _, v := range values {
		_, credentials, _ := strings.Cut(v, " ")
		for _, s := range []string{v, strings.TrimSpace(credentials)} {
			if len(s) >= shortestSecret {
				secrets = append(secrets, s)
			}
		}
	}
	return secrets
}

// unseenSecrets are those that are sent where an exchange does not see them, to a proxy and to a token endpoint, in the forms
// in which they are sent.
func unseenSecrets(c config.HTTPClientConfig, base string) []string {
	var secrets []string
	if c.OAuth2 != nil {
		secrets = append(secrets, string(c.OAuth2.ClientSecret), string(c.OAuth2.ClientCertificateKey), basic(c.OAuth2.ClientID, string(c.OAuth2.ClientSecret)))
		for _, v := range c.OAuth2.EndpointParams {
			secrets = append(secrets, v)
		}
	}
	for _, values := range c.ProxyConnectHeader {
		for _, v := range values {
			secrets = append(secrets, secretsOf([]string{string(v)})...)
		}
	}
	if proxy := proxyOf(c, base); proxy != nil && proxy.User != nil {
		password, _ := proxy.User.Password()
		secrets = append(secrets, proxy.User.String(), password, basic(proxy.User.Username(), password))
	}
	for _, s := range secrets {
		secrets = append(secrets, url.QueryEscape(s))
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return len(s) < shortestSecret })
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

func hide(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "<secret>")
	}
	return text
}
