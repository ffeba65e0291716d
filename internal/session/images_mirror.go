package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/mirror"
	"github.com/cps-gpu/homelab/internal/printable"
)

// ImagesMirror copies the images of a file to the registry that it names for all, or into a folder.
func ImagesMirror(ctx context.Context, o Options, f ImagesMirrorFlags) error {
	s, err := Load(o)
	if err != nil {
		return err
	}
	if f.Out != "" && f.From != "" {
		return exitErrorf(invalid, "-out and -from are two ways: images go into a folder, or from it to the registry")
	}
	c, err := s.copier(f)
	if err != nil {
		return exitError(invalid, err)
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
	if copied == 0 {
		s.Printf("Nothing to copy: %s has all %s.", c.To, printable.Count(len(names), "image"))
		return nil
	}
	s.Printf("%s copied to %s, %s.", printable.Count(copied, "image"), c.To, spec.Size(bytes))
	return nil
}

// mirrorNames are the names of the images: those of the file, or of a folder of an earlier run.
func (s *Session) mirrorNames(ctx context.Context, folder string) ([]string, error) {
	if folder != "" {
		return mirror.Names(ctx, folder)
	}
	list, err := imagesOf(ctx, s)
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
func (s *Session) copier(f ImagesMirrorFlags) (mirror.Copier, error) {
	c := mirror.Copier{From: mirror.Place{Folder: f.From}, To: mirror.Place{Folder: f.Out}, Replace: f.Replace}
	c.Archs = strings.Split(cmp.Or(f.Arch, "amd64"), ",")
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return c, fmt.Errorf("Docker's configuration, for logins: %w", err) //nolint:staticcheck // a proper name
	}
	logins := credentials.Credential(store)
	c.Source = &auth.Client{Client: retry.NewClient(), Cache: auth.NewCache(), Credential: logins}
	if f.Out != "" {
		return c, nil
	}
	i := slices.IndexFunc(s.Spec.K3s.Registries, func(r spec.Registry) bool { return r.Name == "*" && len(r.Endpoints) > 0 })
	if i < 0 {
		return c, fmt.Errorf(`the file names no registry for all images: write mirror: {registry: https://registry.home.arpa:5000}, or -out=FOLDER`)
	}
	r := s.Spec.K3s.Registries[i]
	if c.To, err = placeOf(r); err != nil {
		return c, err
	}
	c.PlainHTTP = strings.HasPrefix(r.Endpoints[0], "http:")
	c.Destination, err = s.pusher(r, logins)
	return c, err
}

// placeOf is the first endpoint of a registry. K3s takes a path after /v2 as a part of each name.
func placeOf(r spec.Registry) (mirror.Place, error) {
	u, err := url.Parse(r.Endpoints[0])
	if err != nil {
		return mirror.Place{}, err
	}
	path, ok := strings.CutPrefix(strings.Trim(u.Path, "/"), "v2")
	switch {
	case len(r.Rewrite) > 0:
		return mirror.Place{}, fmt.Errorf(`k3s.registries."*" has rewrite, and images would have other names: write the path into the endpoint, https://%s/v2/PROJECT`, u.Host)
	case !ok && path != "":
		return mirror.Place{}, fmt.Errorf(`k3s.registries."*": the path of %s does not begin with /v2: write https://%s/v2/%s`, r.Endpoints[0], u.Host, path)
	}
	return mirror.Place{Registry: u.Host, Project: strings.Trim(path, "/")}, nil
}

func (s *Session) pusher(r spec.Registry, logins auth.CredentialFunc) (*auth.Client, error) {
	web := http.DefaultTransport.(*http.Transport).Clone()
	web.TLSClientConfig = &tls.Config{InsecureSkipVerify: r.Insecure} //nolint:gosec // as the file says
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
	client := &auth.Client{Client: &http.Client{Transport: retry.NewTransport(web)}, Cache: auth.NewCache(), Credential: logins}
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
