package images

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/k3s"
)

// maxList is the most that a list of images may have, in bytes: K3s' has 500.
const maxList = 1 << 20

// OfK3s downloads the list of the images of a release of K3s, which is one of its files (k3s-images.txt).
func OfK3s(ctx context.Context, client *http.Client, release k3s.Release) ([]string, error) {
	url := release.URL("k3s-images.txt")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("images of K3s %s: %w: -offline leaves them out", release.Version, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("images of K3s %s: %s: %s: is there such a release? -offline leaves them out", release.Version, url, answer.Status)
	}
	text, err := io.ReadAll(limit.Reader(answer.Body, maxList))
	if err != nil {
		return nil, fmt.Errorf("images of K3s %s: %s: %w", release.Version, url, err)
	}
	var out []string
	for _, name := range strings.Fields(string(text)) {
		if !reference.MatchString(name) {
			return nil, fmt.Errorf("images of K3s %s: %s is not a list of images: a proxy may have answered instead", release.Version, url)
		}
		out = append(out, name)
	}
	return out, nil
}
