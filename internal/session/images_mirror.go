package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/mirror"
	"github.com/cps-gpu/homelab/internal/printable"
)

// ImagesMirror copies what a file needs to its mirror: images to the registry, or into a folder, and K3s, charts and
// NVIDIA's container toolkit into the folder.
func ImagesMirror(ctx context.Context, o Options, f ImagesMirrorFlags) error {
	s, err := Load(o)
	if err != nil {
		return err
	}
	return imageMirror{s}.copy(ctx, f)
}

// imageMirror is a session that fills the mirror of its file.
type imageMirror struct{ *Session }

func (s imageMirror) copy(ctx context.Context, f ImagesMirrorFlags) error {
	if f.Out != "" && f.From != "" {
		return exitErrorf(invalid, "-out and -from are two ways: images go into a folder, or from it to the registry")
	}
	c, err := s.copier(f)
	if err != nil {
		return exitError(invalid, err)
	}
	if err := s.fill(ctx, f, c); err != nil {
		return err
	}
	names, err := s.mirrorNames(ctx, f.From)
	if err != nil {
		return err
	}
	copied, bytes, seen := 0, int64(0), 0
	err = c.Copy(ctx, names, func(done mirror.Outcome) {
		if seen++; done.Bytes == 0 {
			return
		}
		copied++
		bytes += done.Bytes
		s.Printf("%d of %d: %s", seen, len(names), done.Name)
	})
	if err != nil {
		return err
	}
	s.saysCopied(copied, len(names), "image", c.To.String(), spec.Size(bytes).String())
	return nil
}

// saysCopied ends a part of the work.
func (s imageMirror) saysCopied(copied, all int, of, to string, more ...string) {
	if copied == 0 {
		s.Printf("Nothing to copy: %s has all %s.", to, printable.Count(all, of))
		return
	}
	s.Printf("%s.", strings.Join(append([]string{printable.Count(copied, of) + " copied to " + to}, more...), ", "))
}

// mirrorNames are the names of the images: those of the file, or of a folder of an earlier run.
func (s imageMirror) mirrorNames(ctx context.Context, folder string) ([]string, error) {
	if folder != "" {
		return mirror.Names(ctx, folder)
	}
	list, err := imagesOf(ctx, s.Session)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range list.Images {
		names = append(names, i.Name)
	}
	for _, more := range list.Unlisted {
		s.Printf("not copied: %s", more)
	}
	return names, nil
}

// copier says from where to where images go, with which logins: those of Docker's configuration, and for the
// registry of the file else those of the file.
func (s imageMirror) copier(f ImagesMirrorFlags) (mirror.Copier, error) {
	c := mirror.Copier{From: mirror.Place{Folder: f.From}, To: mirror.Place{Folder: f.Out}, Replace: f.Replace}
	c.Archs = strings.Split(cmp.Or(f.Arch, "amd64"), ",")
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return c, fmt.Errorf("Docker's configuration, for logins: %w", err) //nolint:staticcheck // a proper name
	}
	logins := credentials.Credential(store)
	c.Source = &auth.Client{Client: &http.Client{Transport: retry.NewTransport(s.internet)}, Cache: auth.NewCache(), Credential: logins}
	if f.Out != "" {
		return c, nil
	}
	registry := mirror.ForAll(s.Spec)
	if registry == nil {
		return c, fmt.Errorf(`the file names no registry for all images: write mirror: {registry: https://registry.home.arpa:5000}, or -out=FOLDER`)
	}
	r := *registry
	if c.To, err = mirror.PlaceOf(r); err != nil {
		return c, err
	}
	c.PlainHTTP = strings.HasPrefix(r.Endpoints[0], "http:")
	c.Destination, err = s.pusher(r, logins)
	return c, err
}

func (s imageMirror) pusher(r spec.Registry, logins auth.CredentialFunc) (*auth.Client, error) {
	web := http.DefaultTransport.(*http.Transport).Clone()
	web.TLSClientConfig = &tls.Config{InsecureSkipVerify: r.Insecure} //nolint:gosec // as the file says
	var way http.RoundTripper = web
	if s.internet != nil {
		way = s.internet
	}
	if r.CAFile != "" {
		pem, err := limit.File(r.CAFile, limit.Named)
		if err != nil {
			return nil, fmt.Errorf(`k3s.registries."*".ca: %w`, err)
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf(`k3s.registries."*".ca: %s has no certificate in PEM`, r.CAFile)
		}
		web.TLSClientConfig.RootCAs = roots
	}
	client := &auth.Client{Client: &http.Client{Transport: retry.NewTransport(way)}, Cache: auth.NewCache(), Credential: logins}
	if r.Password.IsZero() {
		return client, nil
	}
	password, err := r.Password.Resolve()
	if err != nil {
		return nil, fmt.Errorf(`k3s.registries."*".password: %w`, err)
	}
	s.AddSecrets(password)
	client.Credential = func(ctx context.Context, host string) (auth.Credential, error) {
		if own, err := logins(ctx, host); err != nil || own != auth.EmptyCredential {
			return own, err
		}
		return auth.Credential{Username: r.Username, Password: password.Reveal()}, nil
	}
	return client, nil
}
