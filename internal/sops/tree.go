package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// branch is a mapping in the order of the file, which the authentication code depends on.
// Values are branches, lists ([]any), strings, int, float64, bool, time.Time and nil.
type branch []item

type item struct {
	key   string
	value any
}

// comment is a comment that was encrypted as the item of a list. It does not count in the
// authentication code.
type comment struct{}

// encryptedFile is a file before it is decrypted; the files with several documents have their
// metadata in the first.
type encryptedFile struct {
	docs []branch
	meta metadata
}

// decryptedFile is a decrypted file.
type decryptedFile struct{ docs []branch }

// macOnlyEncrypted starts the authentication code of files in which it is over encrypted values
// alone (sops.MACOnlyEncryptedInitialization).
const macOnlyEncrypted = "\x8a\x3f\xd2\xad\x54\xce\x66\x52\x7b\x10\x34\xf3\xd1\x47\xbe\x0b\x0b\x97\x5b\x3b\xf4\x4f\x72\xc6\xfd\xad\xec\x81\x76\xf2\x7d\x69"

// decrypt decrypts every value and checks the authentication code.
func (f encryptedFile) decrypt(key []byte) (decryptedFile, error) {
	w := walk{key: key, rule: f.meta.rule, sum: sha512.New(), only: f.meta.macOnly}
	if w.only {
		w.sum.Write([]byte(macOnlyEncrypted))
	}
	var out decryptedFile
	for _, doc := range f.docs {
		plain, err := w.branch(doc, nil)
		if err != nil {
			return decryptedFile{}, err
		}
		out.docs = append(out.docs, plain)
	}
	mac, err := decryptValue(f.meta.mac, key, f.meta.modified)
	if err != nil || mac != fmt.Sprintf("%X", w.sum.Sum(nil)) {
		return decryptedFile{}, fmt.Errorf("%w: its authentication code (sops.mac) does not fit its values: "+
			"get the file back as sops wrote it, or look at every value with sops edit --ignore-mac and save it", ErrAltered)
	}
	return out, nil
}

// walk goes through a file's values in their order.
type walk struct {
	key  []byte
	rule rule
	sum  hash.Hash
	only bool // the sum is of encrypted values only
}

func (w walk) branch(b branch, path []string) (branch, error) {
	out := make(branch, len(b))
	for i, it := range b {
		v, err := w.value(it.value, append(path[:len(path):len(path)], it.key))
		if err != nil {
			return nil, err
		}
		out[i] = item{it.key, v}
	}
	return out, nil
}

func (w walk) value(v any, path []string) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case branch:
		return w.branch(v, path)
	case []any:
		out := make([]any, 0, len(v))
		for _, it := range v {
			plain, err := w.value(it, path)
			if err != nil {
				return nil, err
			}
			if plain != (any)(comment{}) {
				out = append(out, plain)
			}
		}
		return out, nil
	default:
		return w.leaf(v, path)
	}
}

func (w walk) leaf(v any, path []string) (any, error) {
	hidden := w.rule.encrypts(path)
	if hidden {
		text, isText := v.(string)
		if !isText {
			return nil, fmt.Errorf("%w: %s should be encrypted and is %s", ErrAltered, strings.Join(path, "."), kind(v))
		}
		var err error
		if v, err = decryptValue(text, w.key, strings.Join(path, ":")+":"); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrAltered, strings.Join(path, "."), err)
		}
	}
	if _, isComment := v.(comment); !isComment && (hidden || !w.only) {
		text, err := plainText(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
		}
		w.sum.Write([]byte(text))
	}
	return v, nil
}

// plainText is a value in the form that the authentication code is over (sops.ToBytes).
func plainText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case time.Time:
		b, err := v.MarshalText()
		return string(b), err
	default:
		return "", errors.New("sops has no values of that kind")
	}
}

var sealed = regexp.MustCompile(`^ENC\[AES256_GCM,data:(.+),iv:(.+),tag:(.+),type:(.+)\]`)

// decryptValue decrypts one value. bound is the text that it is bound to: its path, or for the
// authentication code the time. Errors have no plain text.
func decryptValue(text string, key []byte, bound string) (any, error) {
	if text == "" {
		return "", nil
	}
	m := sealed.FindStringSubmatch(text)
	if m == nil {
		return nil, errors.New("not in the form of an encrypted value")
	}
	var part [3][]byte
	for i := range part {
		b, err := base64.StdEncoding.DecodeString(m[i+1])
		if err != nil {
			return nil, errors.New("not in the form of an encrypted value")
		}
		part[i] = b
	}
	data, iv, tag := part[0], part[1], part[2]
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, errors.New("the file's key is not one of AES")
	}
	if len(iv) == 0 {
		return nil, errors.New("not in the form of an encrypted value")
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, len(iv))
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, iv, append(data[:len(data):len(data)], tag...), []byte(bound))
	if err != nil {
		return nil, errors.New("it was encrypted for another place or with another key, or was changed")
	}
	return parseTyped(string(plain), m[4])
}

// parseTyped gives a decrypted text its type. The error does not repeat it.
func parseTyped(text, kind string) (any, error) {
	var v any
	var err error
	switch kind {
	case "str", "bytes":
		v = text
	case "int":
		v, err = strconv.Atoi(text)
	case "float":
		v, err = strconv.ParseFloat(text, 64)
	case "bool":
		v, err = strconv.ParseBool(text)
	case "time":
		v, err = time.Parse(time.RFC3339, text)
	case "comment":
		v = comment{}
	default:
		return nil, fmt.Errorf("type %q is not one of sops'", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("it is not of its type %s", kind)
	}
	return v, nil
}

// rule says which values are encrypted (Tree.shouldBeEncrypted); rules by comments are refused.
type rule struct {
	unencryptedSuffix, encryptedSuffix string
	unencrypted, encrypted             *regexp.Regexp
}

func (r rule) encrypts(path []string) bool {
	some := func(fits func(key string) bool) bool {
		for _, key := range path {
			if fits(key) {
				return true
			}
		}
		return false
	}
	yes := true
	if r.unencryptedSuffix != "" {
		yes = !some(func(key string) bool { return strings.HasSuffix(key, r.unencryptedSuffix) })
	}
	if r.encryptedSuffix != "" {
		yes = some(func(key string) bool { return strings.HasSuffix(key, r.encryptedSuffix) })
	}
	if r.unencrypted != nil && some(r.unencrypted.MatchString) {
		yes = false
	}
	if r.encrypted != nil {
		yes = some(r.encrypted.MatchString)
	}
	return yes
}
