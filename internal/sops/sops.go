package sops

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/secret"
)

// Errors of Read.
var (
	ErrNotEncrypted = errors.New("the file is not encrypted by sops")
	ErrKey          = errors.New("no private key that is here decrypts the file")
	ErrAltered      = errors.New("the file was altered after sops had encrypted it")
	ErrPath         = errors.New("the file has no such value")
)

// most is the size up to which a file is read.
const most = 4 << 20

// Read decrypts a file and returns the string at path: keys, and numbers of list items from 0,
// joined by dots, such as "proxmox.token". Keys that contain dots are found too. The file's
// suffix says its form, as it does for sops: .yaml and .yml, .env, and JSON for all others.
// Line breaks at the end are cut.
func Read(file, path string) (secret.Value, error) {
	text, err := load(file)
	if err != nil {
		return secret.Value{}, err
	}
	f, err := parse(file, text)
	if err != nil {
		return secret.Value{}, fmt.Errorf("secret file %s: %w", file, err)
	}
	value, err := f.open(file, path)
	if err != nil {
		return secret.Value{}, fmt.Errorf("secret file %s: %w", file, err)
	}
	return value, nil
}

func load(file string) ([]byte, error) {
	text, err := limit.File(file, most)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("secret file %s does not exist: %w", file, err)
	case err != nil:
		return nil, fmt.Errorf("secret file: %w", err)
	}
	return text, nil
}

// parse reads a file by its suffix.
func parse(file string, text []byte) (encryptedFile, error) {
	switch filepath.Ext(file) {
	case ".yaml", ".yml":
		docs, err := fromYAML(text)
		return split(docs, err, file)
	case ".env":
		return fromDotenv(text, file)
	default:
		doc, err := fromJSON(text)
		return split([]branch{doc}, err, file)
	}
}

// open gets the data key, decrypts everything (the authentication code is over everything), and
// picks one value.
func (f encryptedFile) open(file, path string) (secret.Value, error) {
	key, err := f.meta.dataKey()
	if err != nil {
		return secret.Value{}, err
	}
	found, err := f.decrypt(key)
	if err != nil {
		return secret.Value{}, err
	}
	v, at, err := pick(found.docs[0], path)
	if err != nil {
		return secret.Value{}, err
	}
	text, isText := v.(string)
	switch {
	case !isText:
		return secret.Value{}, fmt.Errorf("%w at %s: %s stands there, not a string%s", ErrPath, path, kind(v), quoteIt(v))
	case !f.meta.rule.encrypts(at):
		return secret.Value{}, fmt.Errorf("%s stands there in plain text: the file's rules leave it out; rename the key, or change the rules, and run sops encrypt -i %s", path, file)
	}
	if text = strings.TrimRight(text, "\r\n"); text == "" {
		return secret.Value{}, fmt.Errorf("%s is empty there: set it with sops edit %s", path, file)
	}
	return secret.New(text), nil
}

// pick finds the value at a path, and the keys that lead there, without numbers of list items.
func pick(doc branch, path string) (any, []string, error) {
	var v any = doc
	var at []string
	rest := path
	for rest != "" {
		switch in := v.(type) {
		case branch:
			key := in.longest(rest)
			if key == "" {
				first, _, _ := strings.Cut(rest, ".")
				return nil, nil, missing(path, first, in.keys())
			}
			at = append(at, key)
			v, rest = in.get(key), strings.TrimPrefix(rest[len(key):], ".")
		case []any:
			first, after, _ := strings.Cut(rest, ".")
			n, err := strconv.Atoi(first)
			if err != nil || n < 0 || n >= len(in) {
				return nil, nil, fmt.Errorf("%w as %s: a list of %d stands before %q: write a number from 0", ErrPath, path, len(in), first)
			}
			v, rest = in[n], after
		default:
			return nil, nil, fmt.Errorf("%w as %s: nothing is below %s", ErrPath, path, strings.TrimSuffix(strings.TrimSuffix(path, rest), "."))
		}
	}
	return v, at, nil
}

// missing says which key is not there; names of keys are not secret, and not encrypted.
func missing(path, key string, known []string) error {
	hint := "the file has " + suggest.FirstOf(known)
	if near := suggest.Nearest(key, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(known) == 0 {
		hint = "nothing is there"
	}
	return fmt.Errorf("%w as %s: there is no key %q: %s", ErrPath, path, key, hint)
}

// longest returns the longest key that rest begins with, before a dot or the end.
func (b branch) longest(rest string) string {
	best := ""
	for _, item := range b {
		if (rest == item.key || strings.HasPrefix(rest, item.key+".")) && len(item.key) > len(best) {
			best = item.key
		}
	}
	return best
}

func (b branch) keys() []string {
	keys := make([]string, len(b))
	for i, item := range b {
		keys[i] = item.key
	}
	slices.Sort(keys)
	return keys
}

func (b branch) get(key string) any {
	for _, item := range b {
		if item.key == key {
			return item.value
		}
	}
	return nil
}

func kind(v any) string {
	switch v.(type) {
	case branch:
		return "a mapping"
	case []any:
		return "a list"
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	default:
		return "a number or date"
	}
}

func quoteIt(v any) string {
	switch v.(type) {
	case branch, []any, nil:
		return ""
	default:
		return ": put it in quotes"
	}
}
