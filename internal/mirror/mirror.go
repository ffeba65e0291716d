// Package mirror copies container images from their registries, or from a folder, to one registry or into a folder
// (an OCI image layout). What is there already is not copied again, so a run that was cut goes on where it was.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/cps-gpu/homelab/kube/helm"
)

// Copier copies images.
type Copier struct {
	From, To  Place
	Archs     []string // of which an image with several is copied, e.g. amd64; a name with a digest has all of its own
	Replace   bool     // what another image has under the same name in To
	PlainHTTP bool     // To has no TLS

	Source, Destination *auth.Client // for registries
}

// Outcome is what happened to an image.
type Outcome struct {
	Name  string
	Bytes int64 // copied; 0: it was there already
}

// Names are the images of a folder.
func Names(ctx context.Context, folder string) ([]string, error) {
	store, err := openFolder(ctx, folder)
	if err != nil {
		return nil, err
	}
	var out []string
	err = store.Tags(ctx, "", func(tags []string) error { out = append(out, tags...); return nil })
	if len(out) == 0 && err == nil {
		err = fmt.Errorf("%s has no images: images:mirror -out=FOLDER makes such a folder", folder)
	}
	return slices.Sorted(slices.Values(out)), err
}

func openFolder(ctx context.Context, folder string) (*oci.Store, error) {
	if _, err := os.Stat(folder); err != nil {
		return nil, fmt.Errorf("the folder of images: %w", err)
	}
	return oci.NewWithContext(ctx, folder)
}

// Copy copies images by their full names (with registry and tag), and reports each. An image that fails does not stop the
// others, unless it is To that fails; the error has all.
func (c Copier) Copy(ctx context.Context, names []string, tell func(Outcome)) error {
	if err := c.distinct(names); err != nil {
		return err
	}
	var folder *oci.Store
	var err error
	switch {
	case c.From.Folder != "":
		folder, err = openFolder(ctx, c.From.Folder)
	case c.To.Folder != "":
		folder, err = oci.NewWithContext(ctx, c.To.Folder)
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		copied, err := c.one(ctx, folder, name)
		if err == nil {
			tell(Outcome{name, copied})
			continue
		}
		errs = append(errs, c.explain(name, err))
		if ctx.Err() != nil || ofDestination(err) {
			break
		}
	}
	return errors.Join(errs...)
}

var errTaken = errors.New("has another image under this name")

// distinct refuses two images that would have one name in a registry.
func (c Copier) distinct(names []string) error {
	if c.To.Folder != "" {
		return nil
	}
	known := map[string]string{}
	for _, name := range names {
		_, path, reference := split(name)
		if strings.HasPrefix(reference, "sha256:") {
			continue // of one digest there is one image
		}
		at := path + ":" + reference
		if other, taken := known[at]; taken {
			return fmt.Errorf("%s and %s would be one image in %s: a mirror's names have no registry; leave one out", other, name, c.To)
		}
		known[at] = name
	}
	return nil
}

// split takes a name apart: registry, path, and tag or digest. Of both, the digest counts.
func split(name string) (host, path, reference string) {
	host, path, _ = strings.Cut(name, "/")
	if plain, digest, pinned := strings.Cut(path, "@"); pinned {
		path, _, _ = strings.Cut(plain, ":")
		return host, path, digest
	}
	path, reference, _ = strings.Cut(path, ":")
	return host, path, reference
}

// one copies an image, if To does not have it.
func (c Copier) one(ctx context.Context, folder *oci.Store, name string) (copied int64, err error) {
	host, path, reference := split(name)
	src, dst := oras.ReadOnlyTarget(folder), oras.Target(folder)
	from, to := name, name
	if c.From.Folder == "" {
		from = reference
		if src, err = repository(c.Source, Place{Registry: host}, path, isHere(host)); err != nil {
			return 0, err
		}
	}
	if c.To.Folder == "" {
		to = reference
		if dst, err = repository(c.Destination, c.To, path, c.PlainHTTP); err != nil {
			return 0, err
		}
	}
	root, err := src.Resolve(ctx, from)
	if err != nil {
		return 0, err
	}
	chosen := &selection{ReadOnlyTarget: src, root: root}
	if !strings.Contains(reference, "sha256:") {
		if err := chosen.only(ctx, c.Archs); err != nil {
			return 0, err
		}
	}
	there, err := dst.Resolve(ctx, to)
	switch {
	case err == nil && there.Digest == chosen.root.Digest:
		return 0, nil
	case err == nil && !c.Replace:
		return 0, fmt.Errorf("%s %w (%s instead of %s): -replace overwrites it", c.To, errTaken, there.Digest, chosen.root.Digest)
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return 0, &oras.CopyError{Op: "Resolve", Origin: oras.CopyErrorOriginDestination, Err: err}
	}
	o := oras.DefaultCopyGraphOptions
	var sum atomic.Int64 // blobs are copied at the same time
	o.PostCopy = func(_ context.Context, d ocispec.Descriptor) error { sum.Add(d.Size); return nil }
	if err := oras.CopyGraph(ctx, chosen, dst, chosen.root, o); err != nil {
		return 0, err
	}
	if err := dst.Tag(ctx, chosen.root, to); err != nil {
		return 0, &oras.CopyError{Op: "Tag", Origin: oras.CopyErrorOriginDestination, Err: err}
	}
	return max(1, sum.Load()), nil
}

func repository(client *auth.Client, p Place, path string, plain bool) (*remote.Repository, error) {
	if p.Project != "" {
		path = p.Project + "/" + path
	}
	r, err := remote.NewRepository(p.Registry + "/" + path)
	if err != nil {
		return nil, err
	}
	r.Client, r.PlainHTTP = client, plain
	return r, nil
}

// isHere reports whether a registry is on this machine: those have no TLS, as for Docker.
func isHere(registry string) bool {
	at, err := netip.ParseAddrPort(registry)
	return err == nil && at.Addr().IsLoopback() || strings.HasPrefix(registry, "localhost:")
}

// ofDestination reports whether it is not the source that failed.
func ofDestination(err error) bool {
	failed := new(oras.CopyError)
	return errors.As(err, &failed) && failed.Origin == oras.CopyErrorOriginDestination && !errors.As(err, new(sourceError))
}

// explain says of an error what to do.
func (c Copier) explain(name string, err error) error {
	answer := new(errcode.ErrorResponse)
	where := c.From.String()
	if ofDestination(err) {
		where = c.To.String()
	}
	if where == "" {
		where, _, _ = strings.Cut(name, "/")
	}
	cure := ": run it again, which copies only what is missing"
	switch {
	case errors.As(err, &answer) && (answer.StatusCode == 401 || answer.StatusCode == 403), errors.Is(err, auth.ErrBasicCredentialNotFound):
		cure = ": log in (docker login " + where + "), or write username and password of it below k3s.registries"
	case errors.As(err, &answer) && answer.StatusCode == 429:
		cure = ": it limits downloads: log in (docker login " + where + "), or run it again later, which copies only what is missing"
	case errors.Is(err, errdef.ErrNotFound):
		cure = ": it has no such image"
	case errors.Is(err, errTaken), errors.Is(err, helm.ErrTaken), errors.Is(err, errNoArch):
		cure = ""
	}
	return fmt.Errorf("%s: %s: %w%s", name, where, err, cure)
}
