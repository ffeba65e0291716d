package session

import (
	"bytes"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/mirror"
	"github.com/cps-gpu/homelab/internal/mirror/registrytest"
	"github.com/cps-gpu/homelab/secret"
)

// imagesMirror runs the command for a file with these registries, and returns what it says.
func imagesMirror(t *testing.T, registries string, f ImagesMirrorFlags) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`name: home
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes: {cp1: {role: server, address: 10.0.0.11}}
k3s: {registries: {`+registries+"}}\n"), 0o600))
	var said, data bytes.Buffer
	err := ImagesMirror(t.Context(), Options{Spec: file, ChartFlags: ChartFlags{Offline: true},
		Console: &console.Console{Talk: &said, Data: &data, Redact: &secret.Redactor{}}}, f)
	return said.String(), err
}

// Images go from a folder to the registry that the file names, with its authority and its login, and once.
func TestImagesMirror(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("PROXMOX_SECRET", "pa55-0f-registry")
	src, dst, folder := registrytest.New(t), registrytest.New(t), t.TempDir()
	src.Image("a/one", "v1", "amd64", "arm64")
	src.Image("a/two", "v1", "amd64")
	names := []string{src.Host() + "/a/one:v1", src.Host() + "/a/two:v1"}
	require.NoError(t, mirror.Copier{To: mirror.Place{Folder: folder}, Archs: []string{"amd64"}, Source: &auth.Client{}}.Copy(t.Context(), names, func(mirror.Outcome) {}))
	secure := httptest.NewTLSServer(dst)
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))

	plain := `"*": {endpoints: [` + dst.URL + `/v2/all], username: push, password: "env:PROXMOX_SECRET"}`
	dst.User, dst.Key = "push", "pa55-0f-registry"
	said, err := imagesMirror(t, plain, ImagesMirrorFlags{From: folder})
	require.NoError(t, err)
	require.Regexp(t, `2 of 2: \S+/a/two:v1\n2 images copied to `+dst.Host()+`/all, \S+\.\n$`, said)
	require.NotEmpty(t, dst.Tags["all/a/one:v1"])
	said, err = imagesMirror(t, plain, ImagesMirrorFlags{From: folder})
	require.NoError(t, err)
	require.Equal(t, "Nothing to copy: "+dst.Host()+"/all has all 2 images.\n", said)

	said, err = imagesMirror(t, `"*": {endpoints: [`+secure.URL+`], ca: `+ca+`, username: push, password: "env:PROXMOX_SECRET"}`, ImagesMirrorFlags{From: folder})
	require.NoError(t, err)
	require.Contains(t, said, "2 images copied to "+strings.TrimPrefix(secure.URL, "https://")+", ")
	dst.Key = "another"
	_, err = imagesMirror(t, plain, ImagesMirrorFlags{From: folder})
	require.ErrorContains(t, err, "log in (docker login "+dst.Host()+"/all)")
	require.NotContains(t, err.Error(), "pa55")

	for file, want := range map[string]string{
		``: "the file names no registry for all images",
		`docker.io: {endpoints: [https://r.example]}`:                          "the file names no registry for all images",
		`"*": {endpoints: [https://r.example], rewrite: {a: b}}`:               "has rewrite, and images would have other names",
		`"*": {endpoints: [https://r.example/x]}`:                              "does not begin with /v2: write https://r.example/v2/x",
		`"*": {endpoints: [https://r.example], ca: ` + folder + `/index.json}`: "index.json has no certificate in PEM",
	} {
		_, err := imagesMirror(t, file, ImagesMirrorFlags{From: folder})
		require.ErrorContains(t, err, want)
	}
	_, err = imagesMirror(t, plain, ImagesMirrorFlags{From: folder, Out: folder})
	require.ErrorContains(t, err, "-out and -from are two ways")
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte("{"), 0o600))
	_, err = imagesMirror(t, plain, ImagesMirrorFlags{From: folder})
	require.ErrorContains(t, err, "Docker's configuration, for logins: ")
}
