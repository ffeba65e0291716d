package chart

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/kube/chart/pins"
)

// The most that is read, in bytes. The largest index in the field (bitnami's) has
// some 20 MiB; Helm itself takes no archive above 100 MiB.
const (
	maxIndex   = 128 << 20
	maxArchive = 100 << 20
)

// tries is how often a repository is asked that does not answer.
const tries = 3

// noVersionError is a repository that answers and has no such chart.
type noVersionError struct{ text string }

func (e *noVersionError) Error() string { return e.text }

// cached returns the path of a release's chart among the downloads. Repositories do
// not share a folder: two may have different charts of one name and version.
func (s Source) cached(r Release) (string, error) {
	dir := s.Cache
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("folder for downloaded charts: %w", err)
		}
		dir = filepath.Join(base, "homelab", "charts")
	}
	sum := sha256.Sum256([]byte(strings.TrimSuffix(r.Repo, "/")))
	name := filepath.Base(archive(r.Chart, r.Version)) // Base: neither can point out of the folder
	return filepath.Join(dir, hex.EncodeToString(sum[:8]), name), nil
}

// fetch downloads a release's chart to path, whole or not at all. A digest that is
// known must be the download's.
func (s Source) fetch(ctx context.Context, r Release, path, digest string) error {
	progress.Say(ctx, "fetching chart %s %s from %s", r.Chart, r.Version, shown(r.Repo))
	u, err := url.Parse(r.Repo)
	if err != nil {
		return fmt.Errorf("repository %q is no URL", shown(r.Repo))
	}
	client := s.client()
	defer client.CloseIdleConnections()
	var data []byte
	switch u.Scheme {
	case "oci":
		data, err = pull(ctx, client, strings.TrimSuffix(u.Host+u.Path, "/")+"/"+r.Chart, r.Version)
	case "https", "http":
		data, err = fromIndex(ctx, client, u, r)
	default:
		return fmt.Errorf("repository %s: its scheme must be https or oci", shown(r.Repo))
	}
	if err != nil {
		return err
	}
	if have := digestOf(data); digest == "" {
		progress.Say(ctx, "chart %s %s has the digest %s, which nothing here can confirm; charts.digests keeps it", r.Chart, r.Version, have)
	} else if have != digest {
		return fmt.Errorf("chart %s %s from %s has the digest %s, and %s was expected: it was changed on the way or in its repository; "+
			"do not install it before you know why", r.Chart, r.Version, shown(r.Repo), have, digest)
	}
	return keep(path, data)
}

// digestOf writes a digest as registries do.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// digest is what a release's archive must have, or "": what the caller says, else what
// is known of the pinned version.
func (s Source) digest(r Release) string {
	if d := s.Digests[r.Chart]; d != "" {
		return d
	}
	return pins.Digest(r.Chart, r.Repo, r.Version)
}

// shown is a URL without what it may hold of credentials.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	return u.Redacted()
}

// keep writes a file so that other readers see all of it or nothing.
func keep(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("folder for downloaded charts: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".part-*")
	if err != nil {
		return fmt.Errorf("keep a downloaded chart: %w", err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keep a downloaded chart: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// client makes the client for one download.
func (s Source) client() *http.Client {
	const reach = 10 * time.Second // for a connection, and again for TLS
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: reach}).DialContext,
		TLSHandshakeTimeout:   reach,
		ResponseHeaderTimeout: 30 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	if s.Dial != nil {
		t.DialContext, t.Proxy = s.Dial, nil
	}
	var rt http.RoundTripper = t
	if s.Wrap != nil {
		rt = s.Wrap(t)
	}
	return &http.Client{Transport: rt, CheckRedirect: redirected}
}

// index is the part of a repository's index.yaml that matters here.
type index struct {
	Entries map[string][]entry `json:"entries"`
}

type entry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// parseIndex reads an index.yaml.
func parseIndex(data []byte) (index, error) {
	var ix index
	if err := yaml.Unmarshal(data, &ix); err != nil {
		return ix, fmt.Errorf("index.yaml: %w", err)
	}
	if len(ix.Entries) == 0 {
		return ix, errors.New("index.yaml lists no chart: is this the URL of a chart repository?")
	}
	return ix, nil
}

// find returns the entry of a chart at a version.
func (ix index) find(name, version string) (entry, error) {
	entries, ok := ix.Entries[name]
	if !ok {
		return entry{}, &noVersionError{"it has no chart " + name}
	}
	have := make([]string, 0, len(entries))
	for _, e := range entries {
		if strings.TrimPrefix(e.Version, "v") == strings.TrimPrefix(version, "v") {
			if len(e.URLs) == 0 {
				return entry{}, fmt.Errorf("its index names no URL for %s %s", name, version)
			}
			return e, nil
		}
		have = append(have, e.Version)
	}
	const few = 5
	if len(have) > few {
		have = append(have[:few:few], "…")
	}
	return entry{}, &noVersionError{fmt.Sprintf("it has no version %s of %s, but %s", version, name, strings.Join(have, ", "))}
}

// fromIndex downloads from a classic repository.
func fromIndex(ctx context.Context, client *http.Client, repo *url.URL, r Release) ([]byte, error) {
	repo = repo.JoinPath("/") // so that relative URLs are below it
	data, err := get(ctx, client, repo.JoinPath("index.yaml"), maxIndex)
	if err != nil {
		return nil, err
	}
	ix, err := parseIndex(data)
	var e entry
	if err == nil {
		e, err = ix.find(r.Chart, r.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", shown(r.Repo), err)
	}
	var errs []error
	for _, raw := range e.URLs {
		data, err := fromURL(ctx, client, repo, raw, r.Version, e.Digest != "")
		if err == nil {
			err = checkDigest(data, e.Digest)
		}
		if err == nil {
			return data, nil
		}
		errs = append(errs, fmt.Errorf("%s, which the index of %s names: %w", shown(raw), shown(r.Repo), err))
	}
	return nil, errors.Join(errs...)
}

// fromURL downloads one of the URLs of an index. What an index without TLS leads to is
// as good as the index; what one with TLS leads to has TLS, or its digest is in the index.
func fromURL(ctx context.Context, client *http.Client, repo *url.URL, raw, version string, digest bool) ([]byte, error) {
	u, err := repo.Parse(raw)
	if err != nil {
		return nil, err
	}
	if repo.Scheme == "https" && u.Scheme == "http" && !digest {
		return nil, &downgradeError{repo.Redacted(), u.Redacted()}
	}
	if u.Scheme == "oci" { // bitnami's index does so
		ref, err := registry.ParseReference(strings.TrimPrefix(raw, "oci://"))
		if err != nil {
			return nil, err
		}
		return pull(ctx, client, ref.Registry+"/"+ref.Repository, cmp.Or(ref.Reference, version))
	}
	if u.Host == repo.Host && u.User == nil {
		u.User = repo.User
	}
	return get(ctx, client, u, maxArchive)
}

// checkDigest compares data with the SHA-256 that an index names, if it does.
func checkDigest(data []byte, digest string) error {
	want := strings.TrimPrefix(digest, "sha256:")
	sum := sha256.Sum256(data)
	if have := hex.EncodeToString(sum[:]); want != "" && !strings.EqualFold(have, want) {
		return fmt.Errorf("the download has the digest %s, and the index says %s: it was changed on the way, or the repository is broken", have, want)
	}
	return nil
}

// get downloads a URL, asking again where the network or the server fails.
func get(ctx context.Context, client *http.Client, u *url.URL, most int64) ([]byte, error) {
	wait := 200 * time.Millisecond
	for try := 1; ; try++ {
		data, again, err := getOnce(ctx, client, u, most)
		if err == nil {
			return data, nil
		}
		if !again || try == tries || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
			wait *= 5
		}
	}
}

func getOnce(ctx context.Context, client *http.Client, u *url.URL, most int64) (data []byte, again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	resp, err := client.Do(req)
	if err != nil {
		var ue *url.Error // its words repeat the URL
		if errors.As(err, &ue) {
			err = ue.Err
		}
		var down *downgradeError
		if errors.As(err, &down) {
			return nil, false, err
		}
		return nil, true, fmt.Errorf("%s cannot be reached: %w", u.Redacted(), err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, resp.StatusCode >= http.StatusInternalServerError, fmt.Errorf("%s answers %s", u.Redacted(), resp.Status)
	}
	data, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, true, fmt.Errorf("%s broke off: %w", u.Redacted(), err)
	case int64(len(data)) > most:
		return nil, false, fmt.Errorf("%s has more than %d MiB", u.Redacted(), most>>20)
	}
	return data, false, nil
}

// chartLayer is the media type under which Helm pushes an archive (helm.sh/docs,
// "Use OCI-based registries").
const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// pull downloads a chart from an OCI registry. Every blob is checked against its digest.
func pull(ctx context.Context, client *http.Client, name, version string) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("oci://%s: %w", name, err) }
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
		return layer, errors.New("this is no Helm chart: its manifest has no layer of type " + chartLayer)
	}
	if size := m.Layers[i].Size; size < 0 || size > maxArchive {
		return layer, fmt.Errorf("the chart's layer has %d bytes, more than %d MiB", size, maxArchive>>20)
	}
	return m.Layers[i], m.Layers[i].Digest.Validate()
}

// loopback reports whether a registry is on this machine, and so speaks plain HTTP.
func loopback(server string) bool {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// descriptor is what a manifest says of a blob.
type descriptor = ocispec.Descriptor
