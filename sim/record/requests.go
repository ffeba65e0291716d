package record

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Options say what to read, and as whom.
type Options struct {
	Endpoint    string // https://pve1:8006
	TokenID     string // name@realm!token
	TokenSecret string
	Client      *http.Client // checks the certificate; http.DefaultClient when nil

	Anonymous    bool // replace names, addresses and serial numbers
	Descriptions bool // keep descriptions and comments
}

// entry is an object of an answer. Proxmox writes numbers as texts here and there,
// and leaves out what is not set.
type entry map[string]any

func (e entry) text(key string) string {
	switch v := e[key].(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "1"
		}
		return "0"
	default:
		return fmt.Sprint(v)
	}
}

func (e entry) number(key string) int64 {
	text, _, _ := strings.Cut(e.text(key), ".")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (e entry) is(key string) bool { return e.number(key) != 0 }

func (e entry) object(key string) entry {
	o, _ := e[key].(map[string]any)
	return o
}

func (e entry) objects(key string) []entry {
	items, _ := e[key].([]any)
	var out []entry
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}

// list splits a list that is a text in one place and an array in another.
func (e entry) list(key string) []string {
	if items, ok := e[key].([]any); ok {
		var out []string
		for _, item := range items {
			out = append(out, fmt.Sprint(item))
		}
		return out
	}
	return strings.FieldsFunc(e.text(key), func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
}

// reader sends requests, and records what it could not read.
type reader struct {
	o        Options
	storages []entry // as the whole cluster has them
	missing  []string
}

// most is the longest answer that is read.
const most = 64 << 20

// get reads one path. The error has the server's message.
func (r *reader) get(ctx context.Context, path string, query url.Values, to any) error {
	target := strings.TrimRight(r.o.Endpoint, "/") + "/api2/json" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+r.o.TokenID+"="+r.o.TokenSecret)
	client := r.o.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	d := json.NewDecoder(io.LimitReader(resp.Body, most))
	d.UseNumber()
	if err := d.Decode(&struct {
		Data any `json:"data"`
	}{to}); err != nil {
		return fmt.Errorf("%s: the answer is not understood: %w", path, err)
	}
	return nil
}

// optional reads what a token may not see: a refusal is recorded, and the model does without.
func (r *reader) optional(ctx context.Context, path string, query url.Values, to any) bool {
	err := r.get(ctx, path, query, to)
	if err != nil {
		r.missing = append(r.missing, err.Error())
	}
	return err == nil
}

// rows asks for a list, sorted by a key.
func (r *reader) rows(ctx context.Context, path, key string, query url.Values) []entry {
	var out []entry
	r.optional(ctx, path, query, &out)
	slices.SortStableFunc(out, func(a, b entry) int { return strings.Compare(a.text(key), b.text(key)) })
	return out
}
