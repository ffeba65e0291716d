package helm

import (
	"fmt"
	"net/http"
	"net/url"
)

// withoutCredentials returns a URL without credentials.
func withoutCredentials(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	return withoutLogin(u)
}

// withoutLogin returns a URL without its login. The user name is hidden too, because tokens are
// often written there.
func withoutLogin(u *url.URL) string {
	clean := *u
	if u.User != nil {
		clean.User = url.User("xxxxx")
	}
	return clean.String()
}

// downgradeError is a redirect from TLS to no TLS.
type downgradeError struct{ from, to string }

func (e *downgradeError) Error() string {
	return fmt.Sprintf("%s leads to %s, which is without TLS: anybody on the way could change what comes from there", e.from, e.to)
}

// checkRedirect follows redirects, which chart repositories use, but not from TLS to no TLS.
func checkRedirect(req *http.Request, via []*http.Request) error {
	const most = 10
	last := via[len(via)-1].URL
	switch {
	case len(via) >= most:
		return fmt.Errorf("%d redirects, one after the other", most)
	case last.Scheme == "https" && req.URL.Scheme != "https":
		return &downgradeError{withoutLogin(last), withoutLogin(req.URL)}
	}
	return nil
}
