package sops

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/getsops/sops/v3/age"
	"github.com/getsops/sops/v3/pgp"
	"github.com/getsops/sops/v3/shamir"
)

// metadata is what sops writes beside the values.
type metadata struct {
	groups    []group
	threshold int // groups that must give their part of the data key, if there are several
	mac       string
	modified  string // the text that the authentication code is bound to
	macOnly   bool
	rule      rule
}

// group is a set of keys, each of which gives the data key, or the group's part of it.
type group struct {
	keys  []masterKey
	other []string // keys of kinds that this package does not use, as text
}

// masterKey is a key of age or PGP.
type masterKey struct {
	name string // e.g. "age1…" or "PGP 85D77543B3D624B63CEA9E6DBC17301B491B3F21"
	open func() ([]byte, error)
}

// split takes the metadata out of the documents.
func split(docs []branch, err error, file string) (encryptedFile, error) {
	if err != nil {
		return encryptedFile{}, err
	}
	var found any
	for i, doc := range docs {
		if i == 0 {
			found = doc.get("sops")
		}
		docs[i] = doc.without("sops")
	}
	meta, isMapping := found.(branch)
	if !isMapping {
		return encryptedFile{}, fmt.Errorf("%w: run sops encrypt -i %s", ErrNotEncrypted, file)
	}
	m, err := readMetadata(meta)
	return encryptedFile{docs, m}, err
}

func (b branch) without(key string) branch {
	var out branch
	for _, it := range b {
		if it.key != key {
			out = append(out, it)
		}
	}
	return out
}

func readMetadata(b branch) (metadata, error) {
	m := metadata{mac: text(b, "mac")}
	if text(b, "encrypted_comment_regex") != "" || text(b, "unencrypted_comment_regex") != "" {
		return m, errors.New("its rules choose values by comments, which are not followed here: choose them by encrypted_regex or a suffix")
	}
	modified, err := time.Parse(time.RFC3339, text(b, "lastmodified"))
	if err != nil {
		return m, fmt.Errorf("sops.lastmodified is not a time: %w", ErrAltered)
	}
	m.modified = modified.Format(time.RFC3339)
	m.macOnly, _ = strconv.ParseBool(text(b, "mac_only_encrypted")) // anything else is false
	m.threshold, _ = strconv.Atoi(text(b, "shamir_threshold"))
	m.rule = rule{unencryptedSuffix: text(b, "unencrypted_suffix"), encryptedSuffix: text(b, "encrypted_suffix")}
	for key, to := range map[string]**regexp.Regexp{"unencrypted_regex": &m.rule.unencrypted, "encrypted_regex": &m.rule.encrypted} {
		if s := text(b, key); s != "" {
			if *to, err = regexp.Compile(s); err != nil {
				return m, fmt.Errorf("sops.%s: %w", key, err)
			}
		}
	}
	if m.rule == (rule{}) {
		m.rule.unencryptedSuffix = "_unencrypted" // sops.DefaultUnencryptedSuffix
	}
	groups, _ := b.get("key_groups").([]any)
	if len(groups) == 0 {
		groups = []any{b}
	}
	for _, g := range groups {
		keys, _ := g.(branch)
		m.groups = append(m.groups, readGroup(keys))
	}
	return m, nil
}

// readGroup reads the keys of a group, PGP's first, as sops does.
func readGroup(b branch) group {
	var g group
	for _, k := range list(b, "pgp") {
		key := pgp.MasterKey{Fingerprint: text(k, "fp"), EncryptedKey: text(k, "enc")}
		g.keys = append(g.keys, masterKey{"PGP " + key.Fingerprint, key.Decrypt})
	}
	for _, k := range list(b, "age") {
		key := age.MasterKey{Recipient: text(k, "recipient"), EncryptedKey: text(k, "enc")}
		g.keys = append(g.keys, masterKey{key.Recipient, key.Decrypt})
	}
	for _, cloud := range [][3]string{
		{"kms", "AWS KMS", "arn"}, {"gcp_kms", "Google KMS", "resource_id"}, {"azure_kv", "Azure Key Vault", "vault_url"},
		{"hc_vault", "HashiCorp Vault", "vault_address"}, {"hckms", "Huawei KMS", "key_id"},
	} {
		for _, k := range list(b, cloud[0]) {
			g.other = append(g.other, strings.TrimSpace(cloud[1]+" "+text(k, cloud[2])))
		}
	}
	return g
}

// dataKey gets the key that the values are encrypted with.
func (m metadata) dataKey() ([]byte, error) {
	var parts [][]byte
	var said []string
	for _, g := range m.groups {
		part, why := g.part()
		if part != nil {
			parts = append(parts, part)
			continue
		}
		said = append(said, why...)
	}
	switch {
	case len(m.groups) == 1 && len(parts) == 1:
		return parts[0], nil
	case len(m.groups) > 1 && len(parts) >= max(2, m.threshold):
		key, err := shamir.Combine(parts)
		if err != nil {
			return nil, fmt.Errorf("%w: its key's parts do not fit together: %w", ErrKey, err)
		}
		return key, nil
	}
	return nil, m.refusal(said)
}

// part decrypts the group's part with the first key that does.
func (g group) part() ([]byte, []string) {
	var said []string
	for _, k := range g.keys {
		part, err := k.open()
		if err == nil {
			return part, nil
		}
		said = append(said, k.name+": "+firstLine(err.Error()))
	}
	return nil, said
}

// refusal names the keys that would decrypt the file, and where private keys are looked for.
func (m metadata) refusal(said []string) error {
	var names, others []string
	for _, g := range m.groups {
		for _, k := range g.keys {
			names = append(names, k.name)
		}
		others = append(others, g.other...)
	}
	if len(names) == 0 {
		if len(others) == 0 {
			return fmt.Errorf("%w: it names no key at all", ErrKey)
		}
		return fmt.Errorf("%w: it is encrypted for %s, and only age and PGP keys are used here: add one with sops rotate -i --add-age", ErrKey, strings.Join(others, ", "))
	}
	text := "it is encrypted for " + strings.Join(names, ", ")
	if len(others) > 0 {
		text += ", and for " + strings.Join(others, ", ") + ", which is not used here"
	}
	if len(m.groups) > 1 {
		text += fmt.Sprintf("; %d of its %d groups of keys are needed", max(2, m.threshold), len(m.groups))
	}
	text += ": set SOPS_AGE_KEY_FILE to the file of the age identity (or put it into ~/.config/sops/age/keys.txt), or import the PGP key into gpg"
	for _, s := range said {
		text += "\n  " + s
	}
	return fmt.Errorf("%w: %s", ErrKey, text)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	const width = 300
	if len(s) > width {
		s = s[:width] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// text is a value of the metadata as text; dotenv has all of them so.
func text(b branch, key string) string {
	s, err := plainText(b.get(key))
	if err != nil {
		return ""
	}
	return s
}

func list(b branch, key string) []branch {
	items, _ := b.get(key).([]any)
	var out []branch
	for _, it := range items {
		if keys, ok := it.(branch); ok {
			out = append(out, keys)
		}
	}
	return out
}
