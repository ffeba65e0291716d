package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/limit"
)

// maxManifest is the size of a manifest that every registry must accept, in bytes
// (github.com/opencontainers/distribution-spec, "Pushing Manifests"). A chart's has a thousand.
const maxManifest = 4 << 20

// chartLayer is the media type under which Helm pushes an archive (helm.sh/docs,
// "Use OCI-based registries").
const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// pull downloads a chart from an OCI registry. Every blob is checked against its digest.
func pull(ctx context.Context, client *http.Client, name, version string) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		err = fmt.Errorf("oci://%s: %w", name, err)
		var network *net.OpError
		var answer *errcode.ErrorResponse
		if errors.As(err, &network) && mayAnswerSoon(err) || errors.As(err, &answer) && answer.StatusCode >= http.StatusInternalServerError {
			err = converge.Transient(err)
		}
		return nil, err
	}
	repo, err := remote.NewRepository(name)
	if err != nil {
		return fail(err)
	}
	repo.Client = &auth.Client{Client: client, Cache: auth.NewCache()}
	repo.PlainHTTP = loopback(repo.Reference.Registry)
	tag := strings.ReplaceAll(version, "+", "_") // a tag has no "+"; Helm writes it so
	desc, body, err := repo.FetchReference(ctx, tag)
	if err != nil {
		return fail(fmt.Errorf("tag %s: %w", tag, err))
	}
	defer func() { _ = body.Close() }()
	if desc.Size > maxManifest { // the registry's claim, and memory is allocated by it
		return fail(fmt.Errorf("its manifest: %w", &limit.Error{Most: maxManifest, Size: desc.Size}))
	}
	raw, err := content.ReadAll(body, desc)
	if err != nil {
		return fail(err)
	}
	layer, err := parseManifest(raw)
	if err != nil {
		return fail(err)
	}
	blob, err := repo.Fetch(ctx, layer)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = blob.Close() }()
	data, err := content.ReadAll(blob, layer)
	if err != nil {
		return fail(err)
	}
	return bytes.Clone(data), nil
}

// parseManifest returns the layer of an OCI manifest that is the chart.
func parseManifest(raw []byte) (layer descriptor, err error) {
	var m struct {
		Layers []descriptor `json:"layers"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return layer, fmt.Errorf("manifest: %w", err)
	}
	i := slices.IndexFunc(m.Layers, func(d descriptor) bool { return d.MediaType == chartLayer })
	if i < 0 {
		return layer, errors.New("this is not a Helm chart: its manifest has no layer of type " + chartLayer)
	}
	if size := m.Layers[i].Size; size < 0 || size > maxArchive {
		return layer, fmt.Errorf("the chart's layer has %d bytes, more than %d MiB", size, maxArchive>>20)
	}
	return m.Layers[i], m.Layers[i].Digest.Validate()
}

// loopback reports whether a registry is on this machine and therefore speaks plain HTTP.
func loopback(registry string) bool {
	host, _, err := net.SplitHostPort(registry)
	if err != nil {
		host = registry
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// descriptor describes a blob in a manifest.
type descriptor = ocispec.Descriptor
