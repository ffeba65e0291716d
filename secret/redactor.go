package secret

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Redactor replaces known secrets in foreign text. It is safe for concurrent use.
// The zero Redactor knows none.
type Redactor struct {
	mu    sync.RWMutex
	known []string
}

// minSecret is the shortest text that is treated as a secret. Shorter ones would
// mask half of every sentence and are not worth the name.
const minSecret = 4

// NewRedactor makes a Redactor that knows values.
func NewRedactor(values ...Value) *Redactor {
	r := &Redactor{}
	r.Add(values...)
	return r
}

// Add makes further values known, each as it is and as it looks in a URL, in JSON
// and in base64.
func (r *Redactor) Add(values ...Value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		s := v.Reveal()
		if len(s) < minSecret {
			continue
		}
		for _, form := range forms(s) {
			if !slices.Contains(r.known, form) {
				r.known = append(r.known, form)
			}
		}
	}
	// Longest first: a secret that contains another must go whole.
	slices.SortStableFunc(r.known, func(a, b string) int { return len(b) - len(a) })
}

// forms returns the ways in which other people's text may show s.
func forms(s string) []string {
	out := []string{s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s))}
	if js, err := json.Marshal(s); err == nil {
		out = append(out, string(js[1:len(js)-1]))
	}
	return out
}

// Redact returns s with every known secret replaced by [Mask].
func (r *Redactor) Redact(s string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, k := range r.known {
		s = strings.ReplaceAll(s, k, Mask)
	}
	return s
}
