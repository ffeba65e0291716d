package examine

import (
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/secret"
)

// redactor takes secrets out of text that others have written: those that are known, and what
// looks like one.
type redactor struct {
	known *secret.Redactor
	whole []*regexp.Regexp
	named *regexp.Regexp // a name, and what follows it
	login *regexp.Regexp
}

func newRedactor(known *secret.Redactor) *redactor {
	r := &redactor{known: known}
	for _, like := range []string{
		`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`,
		`K10[0-9a-f]{16,}::\S+`, // K3s' tokens
		`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`,
		`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?`,
		`AGE-SECRET-KEY-[0-9A-Za-z-]+`,
		`\$[0-9a-z]{1,3}\$[./A-Za-z0-9$=,]{16,}`, // hashes of passwords
		`PVEAPIToken=\S+`,
		`(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}`,
	} {
		r.whole = append(r.whole, regexp.MustCompile(like))
	}
	r.named = regexp.MustCompile(`(?i)([a-z0-9_-]*(?:password|passwd|secret|token|api-?_?key|access-?_?key|private-?_?key|client-?_?data|key-data)["']?\s*[:=]\s*["']?)([^\s"',}\[]{4,})`)
	r.login = regexp.MustCompile(`(://[^/\s:@]+:)[^/\s@]+@`)
	return r
}

// redact returns the text without secrets. References to secrets, such as env:NAME, stay.
func (r *redactor) redact(text string) string {
	if r.known != nil {
		text = r.known.Redact(text)
	}
	for _, like := range r.whole {
		text = like.ReplaceAllString(text, secret.Mask)
	}
	text = r.login.ReplaceAllString(text, "${1}"+secret.Mask+"@")
	return r.named.ReplaceAllStringFunc(text, func(match string) string {
		m := r.named.FindStringSubmatch(match)
		for _, reference := range []string{"env:", "file:", "sops:", "/"} {
			if strings.HasPrefix(m[2], reference) {
				return match
			}
		}
		return m[1] + secret.Mask
	})
}
