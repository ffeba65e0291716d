package proxmox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The API imports what it has downloaded since 8.4.
func TestCheckImport(t *testing.T) {
	for v, ok := range map[Version]bool{
		{Version: "9.2.11", Release: "9.2"}: true, {Version: "8.4.1", Release: "8.4"}: true, {Version: "8.3.5", Release: "8.3"}: false, {Version: "7.9", Release: "7.9"}: false,
		{Version: "8.5"}: true, {Version: "8.2.4"}: false, {Version: "9.0~beta"}: true, {Version: "8.4-1", Release: "8.4-1"}: true, {Version: "8.3-4", Release: "8.3-4"}: false, {Version: "odd"}: true,
	} {
		err := checkImport(v)
		assert.Equal(t, ok, err == nil, "%+v: %v", v, err)
	}
}

func TestSpecsOfTemplatesThatCannotBe(t *testing.T) {
	good := CreateSpec{Name: "t", Host: "pve1", Owner: "o", Image: "i", Storage: "s"}
	require.NoError(t, good.check())
	for want, wrong := range map[string]func(*CreateSpec){
		`vm name "a b" is not a DNS name`: func(s *CreateSpec) { s.Name = "a b" }, "vm t: no host": func(s *CreateSpec) { s.Host = "" }, "vm t: no owner": func(s *CreateSpec) { s.Owner = "" },
		"vm t: no image": func(s *CreateSpec) { s.Image = "" }, "vm t: no storage": func(s *CreateSpec) { s.Storage = "" },
	} {
		spec := good
		wrong(&spec)
		assert.EqualError(t, spec.check(), want)
	}
	for want, image := range map[string]Image{
		"image name \"a.img\"":                   {FileName: "a.img"},
		"is not a SHA-256 checksum":              {FileName: "a.raw", URL: "https://x/a", SHA256: "abc"},
		"is not a SHA-512 checksum, or there is": {FileName: "a.raw", URL: "https://x/a", SHA512: strings.Repeat("0", 64)},
		"or there is a SHA-256 beside it":        {FileName: "a.raw", URL: "https://x/a", SHA512: strings.Repeat("0", 128), SHA256: strings.Repeat("0", 64)},
		"Proxmox downloads http and https":       {FileName: "a.raw", URL: "ftp://x/a", SHA256: strings.Repeat("0", 64)},
		"\"\" is not a SHA-256 checksum":         {FileName: "a.raw", URL: "https://x/a"},
	} {
		assert.ErrorContains(t, image.check(), want)
	}
	for _, image := range []Image{{FileName: "a.raw", URL: "http://x/a", SHA512: strings.Repeat("0", 128)}, {FileName: "a.ova", URL: "https://x/a", SHA256: strings.Repeat("F", 64)}} {
		assert.NoError(t, image.check())
	}
}
