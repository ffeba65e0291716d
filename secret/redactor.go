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

// minSecret is the shortest text that is treated as a secret. Shorter ones would mask half of
// every sentence.
const minSecret = 4

// NewRedactor makes a Redactor that knows values.
func NewRedactor(values ...Value) *Redactor {
	r := &Redactor{}
	r.Add(values...)
	return r
}

// Add adds values, each unchanged and as encoded in a URL, in JSON and in base64.
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
	// Longest first, so that a secret that contains another is replaced as a whole.
	slices.SortStableFunc(r.known, func(a, b string) int { return len(b) - len(a) })
}

// forms returns the encodings of s that foreign text may contain.
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
