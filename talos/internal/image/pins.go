package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/limit"
)

// Pins is the file with the checksums of images that were seen, beside cluster.yaml, as sha256sum writes
// them: a line with the sum, two spaces and the address. Like cluster.yaml it belongs into Git.
type Pins struct {
	Path string
	Factory
}

// Factory is how the image factory is asked; its zero value asks it over the internet.
type Factory struct {
	Get  func(ctx context.Context, url string) (io.ReadCloser, error) // nil: [Get]
	Post func(ctx context.Context, url string, body []byte) error     // nil: [Post]
}

// NewPins returns the pins of a cluster.
func NewPins(folder, cluster string) *Pins {
	return &Pins{Path: filepath.Join(folder, cluster+".images.sha256"), Factory: Factory{Get, Post}}
}

// maxImage limits what is downloaded: a disk image of Talos has 0.2 GiB with NVIDIA's driver.
const maxImage = 8 << 30

var line = regexp.MustCompile(`^[0-9a-f]{64}  \S+$`)

// SHA256 returns an image's checksum. One that is not in the file is downloaded, here and not on a host, and its
// checksum is in the file before it is used. A checksum that is there is never replaced: an image
// that changed at its address is refused by the host that downloads it.
func (p *Pins) SHA256(ctx context.Context, of Schematic, url string) (string, error) {
	text, err := limit.File(p.Path, limit.Named)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("checksums of images: %w", err)
	}
	for i, l := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if l == "" && len(text) == 0 {
			break
		}
		if !line.MatchString(l) {
			return "", fmt.Errorf("%s:%d: this is not a line of sha256sum: remove it, or bring back the file from Git", p.Path, i+1)
		}
		if sum, of, _ := strings.Cut(l, "  "); of == url {
			return sum, nil
		}
	}
	if err := p.Announce(ctx, of); err != nil {
		return "", err
	}
	sum, err := p.hash(ctx, url)
	if err != nil {
		return "", fmt.Errorf("checksum of %s: %w", url, err)
	}
	if err := keep.WriteFile(p.Path, append(text, sum+"  "+url+"\n"...), 0o644); err != nil {
		return "", err
	}
	return sum, nil
}

// Announce makes the factory know a schematic, which it builds disk images and installers of from then on.
func (p *Pins) Announce(ctx context.Context, of Schematic) error {
	schematic, err := of.Text()
	if err == nil {
		err = p.Post(ctx, "https://"+factory+"/schematics", schematic)
	}
	if err != nil {
		return fmt.Errorf("the image's extensions: %w", err)
	}
	return nil
}

func (p *Pins) hash(ctx context.Context, url string) (string, error) {
	body, err := p.Get(ctx, url)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, limit.Reader(body, maxImage))
	if err = errors.Join(err, body.Close()); err == nil && n == 0 {
		err = errors.New("the image is empty")
	}
	return hex.EncodeToString(sum.Sum(nil)), err
}

// Get downloads over TLS, with the system's authorities. A body that is cut off is an error when it is read.
func Get(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s: see that it has this release of Talos", resp.Request.URL.Host, resp.Status)
	}
	return resp.Body, nil
}

// Post gives the factory a schematic, which it builds images of from then on. Giving it again changes nothing.
func Post(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s answers %s", resp.Request.URL.Host, resp.Status)
	}
	return nil
}
