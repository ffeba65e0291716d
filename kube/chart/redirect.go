package chart

import (
	"fmt"
	"net/http"
)

// downgradeError is a way that leads from TLS to none.
type downgradeError struct{ from, to string }

func (e *downgradeError) Error() string {
	return fmt.Sprintf("%s leads to %s, which is without TLS: anybody on the way could change what comes from there", e.from, e.to)
}

// redirected follows redirects, as chart repositories have them, but not out of TLS.
func redirected(req *http.Request, via []*http.Request) error {
	const most = 10
	last := via[len(via)-1].URL
	switch {
	case len(via) >= most:
		return fmt.Errorf("%d redirects, one after the other", most)
	case last.Scheme == "https" && req.URL.Scheme != "https":
		return &downgradeError{last.Redacted(), req.URL.Redacted()}
	}
	return nil
}
