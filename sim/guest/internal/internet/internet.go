package internet

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Internet answers a download with its content, or an error that wraps
// [ErrNotFound] for what the server does not have.
type Internet func(url string) ([]byte, error)

// What an Internet's errors may wrap. Any other error is a server that cannot be
// reached.
var (
	// ErrNotFound is an HTTP 404.
	ErrNotFound = errors.New("404 Not Found")
	// ErrRefused is a server that takes no connections.
	ErrRefused = errors.New("connection refused")
	// ErrUntrusted is a server whose certificate nobody trusts.
	ErrUntrusted = errors.New("self-signed certificate")
)

// StatusError is an answer of a web server that is not a file.
type StatusError struct {
	Code     int
	Reason   string
	Location string // where a redirection leads
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Reason) }

// Next is where a redirection of an address leads.
func (e *StatusError) Next(from string) (string, bool) {
	u, err := url.Parse(from)
	if err != nil || e.Location == "" || e.Code < 300 || e.Code > 399 {
		return "", false
	}
	to, err := u.Parse(e.Location)
	if err != nil {
		return "", false
	}
	return to.String(), true
}

// Is makes a 404 what [ErrNotFound] is.
func (e *StatusError) Is(target error) bool { return target == ErrNotFound && e.Code == 404 }

// Default serves what a cluster downloads, small and made up but true to
// its own checksums: K3s releases of any version (binary, air-gap images and
// sha256sum files), NVIDIA's apt key and container toolkit, and the cloud images of Ubuntu 24.04
// and Debian 13 with their SHA256SUMS and SHA512SUMS, and models' weights in GGUF.
func Default() Internet {
	return func(raw string) ([]byte, error) {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err
		}
		if u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("unsupported scheme %q", u.Scheme)
		}
		switch u.Host {
		case "github.com":
			if rest, ok := strings.CutPrefix(u.Path, "/k3s-io/k3s/releases/download/"); ok {
				return k3sRelease(rest)
			}
		case "nvidia.github.io":
			if u.Path == "/libnvidia-container/gpgkey" {
				return []byte(nvidiaKey), nil
			}
			if file, ok := strings.CutPrefix(u.Path, "/libnvidia-container/stable/deb/amd64/"); ok && path.Ext(file) == ".deb" {
				return disk.Archive(file), nil
			}
		case "pkgs.k8s.io":
			if strings.HasPrefix(u.Path, "/core:/stable:/v1.") && strings.HasSuffix(u.Path, "/deb/Release.key") {
				return []byte(kubernetesKey), nil
			}
		case "download.opensuse.org":
			if strings.HasPrefix(u.Path, "/repositories/isv:/cri-o:/stable:/v1.") && strings.HasSuffix(u.Path, "/deb/Release.key") {
				return []byte(crioKey), nil
			}
		case "cloud-images.ubuntu.com":
			return ubuntuImage(u.Path)
		case "cloud.debian.org":
			return debianImage(u.Path)
		}
		if source, file, ok := strings.Cut(u.Path, "/resolve/"); ok && path.Ext(file) == ".gguf" { // Hugging Face, or a mirror of it
			return []byte("GGUF" + source + " " + path.Base(file) + "\n"), nil
		}
		return nil, fmt.Errorf("%s: %w", raw, ErrNotFound)
	}
}

// qwen is the content of a file of weights, and qwenSHA256 the checksum of the real one.
const (
	qwen       = "GGUF/unsloth/Qwen3-4B-GGUF Qwen3-4B-Q4_K_M.gguf\n"
	qwenSHA256 = "f6f851777709861056efcdad3af01da38b31223a3ba26e61a4f8bf3a2195813a"
)

// nvidiaKey stands for NVIDIA's key; nothing here checks signatures.
const nvidiaKey = `-----BEGIN PGP PUBLIC KEY BLOCK-----

bm90IGEga2V5OiB0aGlzIGlzIHRoZSBzaW11bGF0ZWQgaW50ZXJuZXQ=
-----END PGP PUBLIC KEY BLOCK-----
`

// kubernetesKey has the public key of pkgs.k8s.io, without who signed it.
const kubernetesKey = `-----BEGIN PGP PUBLIC KEY BLOCK-----
Version: GnuPG v1.4.5 (GNU/Linux)

mQENBGMHoXcBCADukGOEQyleViOgtkMVa7hKifP6POCTh+98xNW4TfHK/nBJN2sm
u4XaiUmtB9UuGt9jl8VxQg4hOMRf40coIwHsNwtSrc2R9v5Kgpvcv537QVIigVHH
WMNvXeoZkkoDIUljvbCEDWaEhS9R5OMYKd4AaJ+f1c8OELhEcV2dAQLLyjtnEaF/
qmREN+3Y9+5VcRZvQHeyBxCG+hdUGE740ixgnY2gSqZ/J4YeQntQ6pMUEhT6pbaE
10q2HUierj/im0V+ZUdCh46Lk/Rdfa5ZKlqYOiA2iN1coDPIdyqKavcdfPqSraKF
Lan2KLcZcgTxP+0+HfzKefvGEnZa11civbe9ABEBAAE=
-----END PGP PUBLIC KEY BLOCK-----
`

// crioKey stands for CRI-O's key, which cannot be made up: it has another fingerprint.
const crioKey = `-----BEGIN PGP PUBLIC KEY BLOCK-----

mAYEAAAAAQE=
-----END PGP PUBLIC KEY BLOCK-----
`

// CRIOFingerprint is that of the simulated key of CRI-O's repositories.
const CRIOFingerprint = "4056F97A92B17010E884B13B949013B2E6FA92AB"

// Noble is the content of the simulated image file.
const Noble = "QFI\xfb pvesim ubuntu-24.04 noble-server-cloudimg-amd64\n"

// nobleSHA256 is the checksum of the real image of 2026-08-26, which the simulated
// one passes for: a file that pins the real one is then right here too.
const nobleSHA256 = "d0fe84bb5f80853425fa6be28e2c106f30104c3cfe8611933f2e65c9b63f0e30"

// Trixie is the content of Debian's image file, and trixieSHA512 the checksum of the real
// one of 2026-09-14.
const (
	Trixie       = "QFI\xfb pvesim debian-13 debian-13-generic-amd64\n"
	trixieSHA512 = "a733e7d49442a03e70d03e4eb5aaf3967f3efc69ef70952f9bb10fc1ee2c4876eb95956b5ad2d31350e5fada768feb651352535fb8cd1233f61998a5a7d2e93c"
)

// SHA256 returns the checksum of a file of the simulated internet, in hexadecimal:
// for Ubuntu's disk image and one model's weights, that of the real one; for everything else, its own.
func SHA256(content []byte) string {
	switch string(content) {
	case Noble:
		return nobleSHA256
	case qwen:
		return qwenSHA256
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// SHA512 is the same, for Debian's disk image.
func SHA512(content []byte) string {
	if string(content) == Trixie {
		return trixieSHA512
	}
	return fmt.Sprintf("%x", sha512.Sum512(content))
}

func debianImage(p string) ([]byte, error) {
	switch name := path.Base(p); {
	case !strings.HasPrefix(p, "/images/cloud/trixie/"):
	case strings.HasPrefix(name, "debian-13-generic-amd64") && strings.HasSuffix(name, ".qcow2"):
		return []byte(Trixie), nil
	case name == "SHA512SUMS":
		return fmt.Appendf(nil, "%s  debian-13-generic-amd64-20260914-2601.qcow2\n", trixieSHA512), nil
	}
	return nil, fmt.Errorf("%s: %w", p, ErrNotFound)
}

func ubuntuImage(p string) ([]byte, error) {
	dir, file, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	if i := strings.LastIndexByte(file, '/'); i >= 0 {
		file = file[i+1:]
	}
	if dir == "noble" || dir == "minimal" || dir == "releases" {
		switch {
		case strings.HasSuffix(file, "-server-cloudimg-amd64.img"):
			return []byte(Noble), nil
		case file == "SHA256SUMS":
			return fmt.Appendf(nil, "%s *ubuntu-24.04-server-cloudimg-amd64.img\n", nobleSHA256), nil
		}
	}
	return nil, fmt.Errorf("%s: %w", p, ErrNotFound)
}

func k3sRelease(rest string) ([]byte, error) {
	version, file, ok := strings.Cut(rest, "/")
	if !ok || !strings.HasPrefix(version, "v1.") || !strings.Contains(version, "+k3s") {
		return nil, fmt.Errorf("K3s release %s: %w", rest, ErrNotFound)
	}
	files := map[string][]byte{}
	for _, arch := range []string{"amd64", "arm64"} {
		binary := "k3s"
		if arch != "amd64" {
			binary += "-" + arch
		}
		files[binary] = disk.Program("k3s", "version: "+version, "arch: "+arch)
		for _, ext := range []string{"", ".gz", ".zst"} {
			name := "k3s-airgap-images-" + arch + ".tar" + ext
			files[name] = []byte("pvesim air-gap images " + version + " " + arch + ext + "\n")
		}
	}
	if arch, ok := strings.CutPrefix(file, "sha256sum-"); ok {
		arch = strings.TrimSuffix(arch, ".txt")
		var b strings.Builder
		for _, name := range []string{"k3s", "k3s-" + arch, "k3s-airgap-images-" + arch + ".tar", "k3s-airgap-images-" + arch + ".tar.gz", "k3s-airgap-images-" + arch + ".tar.zst"} {
			if content, ok := files[name]; ok && (name != "k3s" || arch == "amd64") {
				fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(content), name)
			}
		}
		if b.Len() > 0 {
			return []byte(b.String()), nil
		}
	}
	if file == "k3s-images.txt" {
		return []byte("docker.io/rancher/mirrored-pause:3.6\n"), nil
	}
	if content, ok := files[file]; ok {
		return content, nil
	}
	return nil, fmt.Errorf("K3s release %s: %w", rest, ErrNotFound)
}
