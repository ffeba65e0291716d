package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
)

// dockerIndex is Docker's form of an index (distribution's manifest/manifestlist).
const dockerIndex = "application/vnd.docker.distribution.manifest.list.v2+json"

// maxIndex is the most that an index may have, in bytes, as every registry must accept it
// (github.com/opencontainers/distribution-spec, "Pushing Manifests").
const maxIndex = 4 << 20

var errNoArch = errors.New("there is no image for any of these architectures")

// selection is a source of which some architectures of an image are copied: its root may be an index that the source
// itself does not have.
type selection struct {
	oras.ReadOnlyTarget

	root  ocispec.Descriptor
	index []byte // of the root, if it is not the source's
}

func (s *selection) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if s.index != nil && d.Digest == s.root.Digest {
		return io.NopCloser(bytes.NewReader(s.index)), nil
	}
	body, err := s.ReadOnlyTarget.Fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	return &checkedBody{ReadCloser: body, want: d, sum: sha256.New()}, nil
}

// sourceError is an error of the source that shows while the destination reads from it.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// checkedBody gives no last byte of what does not have its digest.
type checkedBody struct {
	io.ReadCloser

	want ocispec.Descriptor
	sum  hash.Hash
	read int64
}

func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sum.Write(p[:n])
	b.read += int64(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return n, sourceError{err}
	case err != nil && b.read < b.want.Size:
		return n, sourceError{fmt.Errorf("%s ended after %d of %d bytes", b.want.Digest, b.read, b.want.Size)}
	case b.read >= b.want.Size && b.want.Digest.Algorithm() == digest.SHA256 && digest.NewDigest(digest.SHA256, b.sum) != b.want.Digest:
		return 0, sourceError{fmt.Errorf("%s has other contents", b.want.Digest)}
	}
	return n, err
}

func (s *selection) Exists(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	if s.index != nil && d.Digest == s.root.Digest {
		return true, nil
	}
	return s.ReadOnlyTarget.Exists(ctx, d)
}

// only makes the root one with these architectures of Linux alone. An image that is not an index stays as it is.
func (s *selection) only(ctx context.Context, archs []string) error {
	if s.root.MediaType != ocispec.MediaTypeImageIndex && s.root.MediaType != dockerIndex {
		return nil
	}
	if s.root.Size > maxIndex {
		return fmt.Errorf("its index has %d bytes, more than %d", s.root.Size, maxIndex)
	}
	text, err := content.FetchAll(ctx, s.ReadOnlyTarget, s.root)
	if err != nil {
		return err
	}
	var index ocispec.Index
	if err := json.Unmarshal(text, &index); err != nil {
		return fmt.Errorf("its index: %w", err)
	}
	all, has := len(index.Manifests), []string{}
	index.Manifests = slices.DeleteFunc(index.Manifests, func(d ocispec.Descriptor) bool {
		if d.Platform == nil || d.Platform.OS != "linux" {
			return true
		}
		has = append(has, d.Platform.Architecture)
		return !slices.Contains(archs, d.Platform.Architecture)
	})
	switch len(index.Manifests) {
	case all:
	case 0:
		return fmt.Errorf("%w: %s; it has %s", errNoArch, strings.Join(archs, ", "), strings.Join(has, ", "))
	case 1:
		s.root = index.Manifests[0]
	default:
		if s.index, err = json.Marshal(index); err != nil {
			return err
		}
		s.root = ocispec.Descriptor{MediaType: s.root.MediaType, Digest: digest.FromBytes(s.index), Size: int64(len(s.index))}
	}
	return nil
}
