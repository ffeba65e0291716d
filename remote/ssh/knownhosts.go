package ssh

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- what OpenSSH hashes host names with; not for security of ours
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/cps-gpu/homelab/internal/limit"
)

// KnownHosts is a file of host keys in OpenSSH's format (sshd(8), SSH_KNOWN_HOSTS FILE
// FORMAT), so that "ssh -o UserKnownHostsFile=…" trusts the same keys. It may be a file that
// OpenSSH wrote: hashed names, patterns and revoked keys are supported; unreadable lines are
// ignored and kept. Certificate authorities are not supported.
//
// It is safe for concurrent use within a process. Between processes a write is
// atomic, and the last one wins.
type KnownHosts struct {
	path string
	mu   sync.Mutex

	// The last parsed contents and the file's state at that time, so that looking up a
	// thousand machines does not parse a thousand lines each time.
	parsed []entry
	seen   fs.FileInfo

	// held are keys that were stored after Hold and are not in the file yet, by normalised
	// name; nil before Hold.
	held map[string][]xssh.PublicKey
}

// NewKnownHosts returns the KnownHosts of a file, which need not exist yet.
func NewKnownHosts(path string) *KnownHosts { return &KnownHosts{path: path} }

// HostKeys is a [Config.HostKeys].
func (k *KnownHosts) HostKeys(_ context.Context, addr string) ([]xssh.PublicKey, error) {
	return k.Lookup(addr)
}

// Lookup returns the keys known for addr, which is host:port; none is not an error.
func (k *KnownHosts) Lookup(addr string) ([]xssh.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lookup(knownhosts.Normalize(addr))
}

func (k *KnownHosts) lookup(name string) ([]xssh.PublicKey, error) {
	if keys, ok := k.held[name]; ok {
		return keys, nil
	}
	if err := k.parse(); err != nil {
		return nil, err
	}
	return keysOf(k.parsed, name), nil
}

// parse reads the file if it has changed since it was read last.
func (k *KnownHosts) parse() error {
	info, _ := os.Stat(k.path) // nil: there is no file, and none is the same
	if os.SameFile(info, k.seen) &&
		info.ModTime().Equal(k.seen.ModTime()) && info.Size() == k.seen.Size() {
		return nil
	}
	content, err := k.read()
	if err != nil {
		return err
	}
	k.parsed, k.seen = parseEntries(content), info
	return nil
}

// Store replaces the known keys of addr; without keys, it removes addr. Other hosts' lines,
// patterns and comments stay. An up-to-date file is not written.
func (k *KnownHosts) Store(addr string, keys ...xssh.PublicKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := knownhosts.Normalize(addr)
	if k.held == nil {
		return k.write(map[string][]xssh.PublicKey{name: keys})
	}
	if have, err := k.lookup(name); err == nil && slices.EqualFunc(have, keys, sameKey) {
		return nil
	}
	k.held[name] = keys
	return nil
}

// DeferWrites keeps stored keys in memory until [KnownHosts.Flush], so that a read-only command
// writes nothing.
func (k *KnownHosts) DeferWrites() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = map[string][]xssh.PublicKey{}
	}
}

// Flush writes the keys in memory and ends Hold. Keys that it could not write stay in memory.
func (k *KnownHosts) Flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) > 0 {
		if err := k.write(k.held); err != nil {
			return err
		}
	}
	k.held = nil
	return nil
}

// Unsaved reports whether there are keys that are not written yet.
func (k *KnownHosts) Unsaved() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held) > 0
}

// Discard discards the keys that are not written yet.
func (k *KnownHosts) Discard() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.held)
}

// write replaces the file's keys for these names.
func (k *KnownHosts) write(all map[string][]xssh.PublicKey) error {
	before, err := k.read()
	if err != nil {
		return err
	}
	after := before
	for _, name := range slices.Sorted(maps.Keys(all)) {
		after = replaceKeys(after, name, all[name])
	}
	if bytes.Equal(before, after) {
		return nil
	}
	if err := writeAtomically(k.path, after, 0o644); err != nil {
		return fmt.Errorf("known hosts: %w", err)
	}
	return nil
}

// maxKnownHosts is how large a known_hosts is read: one of a large site has a few MiB.
const maxKnownHosts = 32 << 20

func (k *KnownHosts) read() ([]byte, error) {
	content, err := limit.File(k.path, maxKnownHosts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("known hosts: %w", err)
	}
	return content, nil
}

func parseEntries(content []byte) []entry {
	var entries []entry
	for line := range bytes.Lines(content) {
		if e, ok := parseEntry(line); ok {
			entries = append(entries, e)
		}
	}
	return entries
}

func keysOf(entries []entry, name string) []xssh.PublicKey {
	var keys, revoked []xssh.PublicKey
	for _, entry := range entries {
		if !entry.matches(name) {
			continue
		}
		switch entry.marker {
		case "":
			keys = append(keys, entry.key)
		case "revoked":
			revoked = append(revoked, entry.key)
		}
	}
	return slices.DeleteFunc(keys, func(key xssh.PublicKey) bool {
		return slices.ContainsFunc(revoked, func(r xssh.PublicKey) bool { return sameKey(key, r) })
	})
}

// replaceKeys returns content with keys as the only ones for name. Lines that already match
// stay in place.
func replaceKeys(content []byte, name string, keys []xssh.PublicKey) []byte {
	var out bytes.Buffer
	missing := slices.Clone(keys)
	for line := range bytes.Lines(content) {
		entry, ok := parseEntry(line)
		if !ok || entry.marker != "" || !entry.names(name) {
			out.Write(line)
			continue
		}
		if i := slices.IndexFunc(missing, func(key xssh.PublicKey) bool { return sameKey(key, entry.key) }); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
			out.Write(line)
			continue
		}
		out.Write(entry.removeName(name, line))
	}
	if b := out.Bytes(); len(missing) > 0 && len(b) > 0 && b[len(b)-1] != '\n' {
		out.WriteByte('\n')
	}
	for _, key := range missing {
		out.WriteString(knownhosts.Line([]string{name}, key) + "\n")
	}
	return out.Bytes()
}

// entry is one line of the file.
type entry struct {
	marker string   // "", "revoked" or "cert-authority"
	hosts  []string // names, patterns, negated patterns, hashed names
	key    xssh.PublicKey
}

// parseEntry reads one line; ok is false for comments, empty and invalid lines.
func parseEntry(line []byte) (entry, bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '#' {
		return entry{}, false
	}
	marker, hosts, key, _, _, err := xssh.ParseKnownHosts(line)
	if err != nil {
		return entry{}, false
	}
	return entry{marker: marker, hosts: hosts, key: key}, true
}

// matches reports whether the entry applies to name, which is normalised. A matching negated
// pattern excludes the whole line, as in OpenSSH.
func (e *entry) matches(name string) bool {
	found := false
	for _, host := range e.hosts {
		pattern, negated := strings.CutPrefix(host, "!")
		if !wildcard(strings.ToLower(pattern), strings.ToLower(name)) && !hashed(host, name) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// names reports whether the entry has name literally, not by a pattern.
func (e *entry) names(name string) bool {
	return slices.ContainsFunc(e.hosts, func(host string) bool { return isName(host, name) })
}

func isName(host, name string) bool { return strings.EqualFold(host, name) || hashed(host, name) }

// removeName returns the entry's line without name, or nothing if it was the only one.
func (e *entry) removeName(name string, line []byte) []byte {
	rest := slices.DeleteFunc(slices.Clone(e.hosts), func(host string) bool { return isName(host, name) })
	if len(rest) == 0 {
		return nil
	}
	line = bytes.TrimLeft(line, " \t")
	return append([]byte(strings.Join(rest, ",")), line[bytes.IndexAny(line, " \t"):]...)
}

// wildcard matches * (any text) and ? (any one character).
func wildcard(pattern, text string) bool {
	// Where to continue if the text after the last star does not match.
	star, mark := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p, t = p+1, t+1
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// hashed reports whether host is "|1|salt|hash" of name.
func hashed(host, name string) bool {
	parts := strings.Split(host, "|")
	if len(parts) != 4 || parts[0] != "" || parts[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	sum, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), sum)
}

func sameKey(a, b xssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// writeAtomically writes the whole file, or leaves the old one.
func writeAtomically(path string, content []byte, perm fs.FileMode) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
