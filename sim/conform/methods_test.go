package conform

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// apiJSON is the API of Proxmox VE 9.2, all of it: methods, parameters, permissions.
//
//go:embed api.json.gz
var apiJSON []byte

// apiMethod is what Proxmox's schema says of a method.
type apiMethod struct {
	Parameters  map[string]json.RawMessage `json:"parameters"`
	Permissions json.RawMessage            `json:"permissions,omitempty"` // none where only root@pam may
	NoToken     bool                       `json:"noToken,omitempty"`
	Returns     *shape                     `json:"returns,omitempty"`
}

// shape is what a method answers with, as far as it is an object or a list of them.
type shape struct {
	List bool            `json:"list,omitempty"`
	Keys map[string]bool `json:"keys"`           // true for those that must be there
	Open bool            `json:"open,omitempty"` // others may be there too
}

// api is the schema.
type api struct {
	Methods map[string]apiMethod `json:"methods"` // GET /version
}

func loadAPI() (*api, error) {
	a := &api{}
	if err := unpack(apiJSON, func(r io.Reader) error { return json.NewDecoder(r).Decode(a) }); err != nil {
		return nil, fmt.Errorf("api.json.gz: %w", err)
	}
	return a, nil
}

func unpack(data []byte, read func(io.Reader) error) error {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	return read(z)
}

// path is the path of a method's name.
func path(name string) string {
	_, p, _ := strings.Cut(name, " ")
	return p
}

var pathVariable = regexp.MustCompile(`\{([^}]+)\}`)

// inPath are the parameters that stand in a method's path.
func inPath(name string) []string {
	var out []string
	for _, m := range pathVariable.FindAllStringSubmatch(name, -1) {
		out = append(out, m[1])
	}
	return out
}

// sameJSON reports whether two pieces of JSON say the same.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(orNull(a), &x) != nil || json.Unmarshal(orNull(b), &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y) // maps print in the order of their keys
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
