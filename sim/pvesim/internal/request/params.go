package request

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
)

// Params are a request's parameters, each with one value, or several for an array.
type Params map[string][]string

// Has reports whether a parameter was given, and is not null.
func (p Params) Has(k string) bool { return len(p[k]) > 0 && p[k][0] != Null }

// Get is a parameter's value, the first of several; empty where it was not given.
func (p Params) Get(k string) string {
	if !p.Has(k) {
		return ""
	}
	return p[k][0]
}

// DropNull forgets parameters that are null, for methods to which they are like none.
func (p Params) DropNull() {
	maps.DeleteFunc(p, func(_ string, v []string) bool { return len(v) > 0 && v[0] == Null })
}

// Bool reports whether a parameter says yes.
func (p Params) Bool(k string) bool { return p.Get(k) == "1" }

// Int is a number that a parameter says, or otherwise.
func (p Params) Int(k string, otherwise int) int {
	n, err := strconv.Atoi(p.Get(k))
	if err != nil {
		return otherwise
	}
	return n
}

// maxForm is what pveproxy reads of a body that is not an upload.
const maxForm = 512 << 10

// ReadParams collects the parameters of query and body. Uploads are read elsewhere.
func ReadParams(r *http.Request) (Params, error) {
	out := Params{}
	query := Params{}
	query.addForm(r.URL.RawQuery)
	defer func() {
		maps.Copy(out, query) // a parameter of the query replaces that of the body
		delete(out, "_dc")    // keeps browsers from answering themselves
	}()
	if r.Body == nil || r.Method == http.MethodGet || r.Method == http.MethodDelete {
		if r.ContentLength > 0 {
			return nil, answer.Unread(http.StatusNotImplemented, "Unexpected content for method '"+r.Method+"'")
		}
		return out, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
	if err != nil {
		return nil, answer.ErrDropped
	}
	if len(body) > maxForm {
		return nil, answer.Unread(http.StatusNotImplemented, "for data too large")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return out, nil
	}
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch contentType {
	case "application/json":
		err = out.addJSON(body)
	case "", "application/x-www-form-urlencoded":
		out.addForm(string(body))
	default:
		err = answer.Unread(http.StatusVariantAlsoNegotiates, "upload 'Content-Type '"+r.Header.Get("Content-Type")+"' not implemented")
	}
	return out, err
}

// addForm reads a form as PVE/APIServer/AnyEvent.pm does (decode_urlencoded): it is
// split at & and at ;, what comes after a second = is dropped, % that does not
// begin a character is itself, and a name without a value replaces what was there.
func (p Params) addForm(s string) {
	for part := range strings.SplitSeq(strings.TrimRight(strings.ReplaceAll(s, ";", "&"), "&"), "&") {
		k, rest, given := strings.Cut(part, "=")
		v, _, _ := strings.Cut(rest, "=")
		if s == "" {
			return
		}
		key, value := unescapeForm(k), unescapeForm(v)
		if !given {
			delete(p, key)
		}
		p[key] = append(p[key], value)
	}
}

func unescapeForm(s string) string { return Unescape(strings.ReplaceAll(s, "+", " ")) }

var escaped = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// Unescape is Perl's uri_unescape.
func Unescape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(e string) string {
		b, err := hex.DecodeString(e[1:])
		if err != nil {
			return e
		}
		return string(b)
	})
}

// addJSON reads a body of JSON.
func (p Params) addJSON(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var in map[string]any
	if err := dec.Decode(&in); err != nil {
		return answer.Unread(http.StatusInternalServerError, "malformed JSON string")
	}
	for k, v := range in {
		values, err := flatten(v)
		if err != nil {
			return answer.Fail(http.StatusBadRequest, "Parameter verification failed.").WithParam(k, err.Error())
		}
		p[k] = values
	}
	return nil
}

// AnObject stands for an object where a value belongs; the check of the types refuses it.
const AnObject = "\x00HASH"

// These stand for JSON's words: the check of the types takes the first two for booleans alone
// (PVE/JSONSchema.pm check_type), and what is null for a property that is missing (check_prop).
const (
	True  = "\x00true"
	False = "\x00false"
	Null  = "\x00null"
)

func flatten(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return []string{Null}, nil
	case string:
		return []string{v}, nil
	case json.Number:
		return []string{v.String()}, nil
	case bool:
		if v {
			return []string{True}, nil
		}
		return []string{False}, nil
	case []any:
		out := []string{}
		for _, item := range v {
			one, err := flatten(item)
			if err != nil || len(one) != 1 || item == nil {
				return nil, errors.New("type check ('array') failed")
			}
			out = append(out, one[0])
		}
		return out, nil
	}
	return []string{AnObject}, nil
}

// secretParams are never recorded.
var secretParams = map[string]bool{
	"password": true, "cipassword": true, "input-data": true, "content": true, "otp": true, "tfa-challenge": true,
}

// Redact returns the parameters as they may be shown to a test's reader.
// content is a secret where it is a file's text, and a type where it is a storage's.
func (p Params) Redact(path string) url.Values {
	out := make(url.Values, len(p))
	for k, v := range p {
		if !p.Has(k) {
			continue
		}
		if secretParams[k] && (k != "content" || strings.Contains(path, "/agent/")) {
			v = []string{"[secret]"}
		}
		out[k] = v
	}
	return out
}

// Fill puts parameters into a path of the schema ("/vms/{vmid}"), and - for one that is missing
// (PVE/Tools.pm, template_replace).
func Fill(template string, p Params) string {
	for {
		before, rest, ok := strings.Cut(template, "{")
		if !ok {
			return template
		}
		name, after, _ := strings.Cut(rest, "}")
		template = before + cmp.Or(p.Get(name), "-") + after
	}
}
