package pvesim

import (
	"bytes"
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
)

// params are a request's parameters, each with one value, or several for an array.
type params map[string][]string

func (p params) has(k string) bool { return len(p[k]) > 0 }

func (p params) get(k string) string {
	if len(p[k]) == 0 {
		return ""
	}
	return p[k][0]
}

func (p params) bool(k string) bool { return p.get(k) == "1" }

func (p params) int(k string, otherwise int) int {
	n, err := strconv.Atoi(p.get(k))
	if err != nil {
		return otherwise
	}
	return n
}

// maxForm is what pveproxy reads of a body that is not an upload.
const maxForm = 512 << 10

// readParams collects the parameters of query and body. Uploads are read elsewhere.
func readParams(r *http.Request) (params, error) {
	out := params{}
	query := params{}
	query.addForm(r.URL.RawQuery)
	defer func() {
		maps.Copy(out, query) // a parameter of the query replaces that of the body
		delete(out, "_dc")    // keeps browsers from answering themselves
	}()
	if r.Body == nil || r.Method == http.MethodGet || r.Method == http.MethodDelete {
		if r.ContentLength > 0 {
			return nil, unread(http.StatusNotImplemented, "Unexpected content for method '"+r.Method+"'")
		}
		return out, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
	if err != nil {
		return nil, errDropped
	}
	if len(body) > maxForm {
		return nil, unread(http.StatusNotImplemented, "for data too large")
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
		err = unread(http.StatusVariantAlsoNegotiates, "upload 'Content-Type '"+r.Header.Get("Content-Type")+"' not implemented")
	}
	return out, err
}

// addForm reads a form as PVE/APIServer/AnyEvent.pm does (decode_urlencoded): it is
// split at & and at ;, what comes after a second = is dropped, % that does not
// begin a character is itself, and a name without a value replaces what was there.
func (p params) addForm(s string) {
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

func unescapeForm(s string) string { return unescape(strings.ReplaceAll(s, "+", " ")) }

var escaped = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// unescape is Perl's uri_unescape.
func unescape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(e string) string {
		b, err := hex.DecodeString(e[1:])
		if err != nil {
			return e
		}
		return string(b)
	})
}

func (p params) addJSON(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var in map[string]any
	if err := dec.Decode(&in); err != nil {
		return unread(http.StatusInternalServerError, "malformed JSON string")
	}
	for k, v := range in {
		values, err := flatten(v)
		if err != nil {
			return fail(http.StatusBadRequest, "Parameter verification failed.").with(k, err.Error())
		}
		if values != nil {
			p[k] = values
		}
	}
	return nil
}

// anObject stands for an object where a value belongs; the check of the types refuses it.
const anObject = "\x00HASH"

func flatten(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case json.Number:
		return []string{v.String()}, nil
	case bool:
		if v {
			return []string{"1"}, nil
		}
		return []string{"0"}, nil
	case []any:
		out := []string{}
		for _, item := range v {
			one, err := flatten(item)
			if err != nil || len(one) != 1 {
				return nil, errors.New("type check ('array') failed")
			}
			out = append(out, one[0])
		}
		return out, nil
	}
	return []string{anObject}, nil
}

// secretParams are never recorded.
var secretParams = map[string]bool{
	"password": true, "cipassword": true, "input-data": true, "content": true, "otp": true, "tfa-challenge": true,
}

// recorded returns the parameters as they may be shown to a test's reader.
// content is a secret where it is a file's text, and a type where it is a storage's.
func (p params) recorded(path string) url.Values {
	out := make(url.Values, len(p))
	for k, v := range p {
		if secretParams[k] && (k != "content" || strings.Contains(path, "/agent/")) {
			v = []string{"[secret]"}
		}
		out[k] = v
	}
	return out
}

// fill puts parameters into a path of the schema ("/vms/{vmid}").
func fill(template string, p params) string {
	for {
		before, rest, ok := strings.Cut(template, "{")
		if !ok {
			return template
		}
		name, after, _ := strings.Cut(rest, "}")
		template = before + p.get(name) + after
	}
}
