package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"github.com/cps-gpu/homelab/kube/chart"
)

// Archive returns the archive of a release's chart as its repository has it, with the digest that the release names: that
// of Folder, earlier downloads or the repository.
func (s Source) Archive(ctx context.Context, r chart.Release) ([]byte, error) {
	if s.Folder != "" {
		if data, ok := readArchive(archivePath(s.Folder, r), r.Digest); ok {
			return data, nil
		}
	}
	s.Folder = ""
	s = s.WithMemoryCache()
	if _, err := s.load(ctx, r); err != nil {
		return nil, err
	}
	cached := s.cachePath(r)
	if cached.dir != "" {
		if data, ok := readArchive(cached.path(), r.Digest); ok {
			return data, nil
		}
	}
	return s.fetchOnce(cached.name+" "+r.Digest, func() ([]byte, error) { return s.fetch(ctx, r, r.Digest) })
}

// Save writes the archive of a release's chart into a folder, where a Source with this Folder finds it, and returns its
// bytes, 0 if it was there already. One with another digest than the release names is replaced.
func (s Source) Save(ctx context.Context, r chart.Release, dir string) (saved int, err error) {
	path := archivePath(dir, r)
	if _, ok := readArchive(path, r.Digest); ok {
		return 0, nil
	}
	data, err := s.Archive(ctx, r)
	if err != nil {
		return 0, err
	}
	return len(data), writeAtomically(path, data)
}

// archivePath is where a folder has a release's chart.
func archivePath(folder string, r chart.Release) string {
	return filepath.Join(folder, filepath.Base(archive(r.Chart, r.Version)))
}

// readArchive reads a file, if it has a digest, or any with an empty one.
func readArchive(path, digest string) ([]byte, bool) {
	data, err := os.ReadFile(path)
	return data, err == nil && (digest == "" || digestOf(data) == digest)
}

// chartConfig is the media type of a chart's description in a registry.
const chartConfig = "application/vnd.cncf.helm.config.v1+json"

// ErrTaken is another chart under the name and version of one.
var ErrTaken = errors.New("has another chart under this version")

// Push puts a chart's archive into a repository of a registry, in the form of ‘helm push’, and returns how many bytes
// that were, 0 if it is there already. The repository has the chart's name.
func Push(ctx context.Context, to oras.Target, archive []byte, replace bool) (int, error) {
	ch, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return 0, err
	}
	described, err := json.Marshal(ch.Metadata)
	if err != nil {
		return 0, err
	}
	parts := []struct {
		kind string
		data []byte
	}{{chartConfig, described}, {chartLayer, archive}}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	m.Config, m.Layers = content.NewDescriptorFromBytes(chartConfig, described), []descriptor{content.NewDescriptorFromBytes(chartLayer, archive)}
	tag := strings.ReplaceAll(ch.Metadata.Version, "+", "_")
	if there, err := layersOf(ctx, to, tag); err != nil || slices.Contains(there, m.Layers[0].Digest.String()) {
		return 0, err
	} else if len(there) > 0 && !replace {
		return 0, fmt.Errorf("%w %s: -replace overwrites it", ErrTaken, ch.Metadata.Version)
	}
	for _, p := range parts {
		d := content.NewDescriptorFromBytes(p.kind, p.data)
		if there, err := to.Exists(ctx, d); err != nil {
			return 0, err
		} else if there {
			continue
		}
		if err := to.Push(ctx, d, bytes.NewReader(p.data)); err != nil {
			return 0, err
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	root := content.NewDescriptorFromBytes(m.MediaType, text)
	if err := to.Push(ctx, root, bytes.NewReader(text)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return 0, err
	}
	return len(archive), to.Tag(ctx, root, tag)
}

// layersOf are the digests of the layers that a registry has under a tag, none if it has no such tag.
func layersOf(ctx context.Context, from oras.ReadOnlyTarget, tag string) ([]string, error) {
	d, err := from.Resolve(ctx, tag)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if d.Size > maxManifest {
		return nil, fmt.Errorf("its manifest has %d bytes, more than %d", d.Size, maxManifest)
	}
	text, err := content.FetchAll(ctx, from, d)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	out := []string{d.Digest.String()} // an index has no layers, and is another chart all the same
	for _, l := range m.Layers {
		out = append(out, l.Digest.String())
	}
	return out, nil
}
