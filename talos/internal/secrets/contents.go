package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"go.yaml.in/yaml/v4"
)

// contents is what is encrypted: two documents. The first is Talos' own, and its program reads no further.
type contents struct {
	bundle  *Bundle
	cluster string
	to      []string // the public keys it was encrypted to, which the file does not show
}

type label struct {
	Cluster    string   `yaml:"cluster"`
	Recipients []string `yaml:"recipients"`
}

func (c contents) isFor(to []recipient) bool { return slices.Equal(c.to, names(to)) }

func marshal(c contents) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	if err := errors.Join(e.Encode(c.bundle), e.Encode(label{c.cluster, c.to}), e.Close()); err != nil {
		return nil, fmt.Errorf("write the secrets of %s: %w", c.cluster, err)
	}
	return out.Bytes(), nil
}

// errContents is all that is said: a decoder's error repeats what it does not understand.
var errContents = errors.New("what it has are not the secrets of a cluster, or they are of a later homelab")

func unmarshal(plain []byte) (contents, error) {
	d := yaml.NewDecoder(bytes.NewReader(plain))
	d.KnownFields(true)
	var l label
	b := &Bundle{Clock: secrets.NewClock()}
	if d.Decode(b) != nil || d.Decode(&l) != nil || !errors.Is(d.Decode(new(any)), io.EOF) || b.Validate() != nil {
		return contents{}, errContents
	}
	return contents{b, l.Cluster, l.Recipients}, nil
}
