package proxmox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"regexp"

	"github.com/cps-gpu/homelab/converge/progress"
)

var isoName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*\.(iso|img)$`)

// Upload puts an ISO on a storage and returns its volume id. One of that name is
// written over.
func (c *Client) Upload(ctx context.Context, host, storage, fileName string, data []byte) (string, error) {
	if !isoName.MatchString(fileName) {
		return "", fmt.Errorf("ISO name %q: write letters, digits, _ . and -, and .iso at the end", fileName)
	}
	progress.Say(ctx, "uploading %s to %s on %s", fileName, storage, host)
	path := nodePath(host, "storage", storage, "upload")
	// An upload writes over what is there, so beginning again does no harm.
	err := c.settle(ctx, host, "", func() error {
		upid, err := c.upload(ctx, path, fileName, data)
		if err != nil {
			return err
		}
		return c.wait(ctx, upid)
	}, func() (bool, error) { return false, nil })
	c.glances.forget(path)
	if err != nil {
		return "", c.explainStorage(ctx, host, storage, "iso", fmt.Errorf("upload %s: %w", fileName, err))
	}
	return storage + ":iso/" + fileName, nil
}

// upload sends the form. Proxmox reads it by position, not by name: content, the
// checksum's algorithm, the checksum, the file, each with Content-Disposition as
// its first header, and nothing else; and it wants Content-Length
// (PVE::APIServer::AnyEvent). go-proxmox's own upload knows neither order nor ctx.
func (c *Client) upload(ctx context.Context, path, fileName string, data []byte) (UPID, error) {
	if err := c.may(ctx); err != nil {
		return UPID{}, err
	}
	sum := sha256.Sum256(data)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, field := range [][2]string{
		{"content", "iso"}, {"checksum-algorithm", "sha256"}, {"checksum", hex.EncodeToString(sum[:])},
	} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return UPID{}, err
		}
	}
	file, err := form.CreateFormFile("filename", fileName)
	if err != nil {
		return UPID{}, err
	}
	if _, err := file.Write(data); err != nil {
		return UPID{}, err
	}
	if err := form.Close(); err != nil {
		return UPID{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, &body)
	if err != nil {
		return UPID{}, err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Authorization", "PVEAPIToken="+c.cfg.TokenID+"="+c.cfg.TokenSecret.Reveal())
	res, err := c.http.Do(req)
	if err != nil {
		return UPID{}, plain(err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Data string `json:"data"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return UPID{}, &Error{Method: req.Method, Path: path, Message: "the answer is not JSON", Token: c.cfg.TokenID, Cause: err}
	}
	return parseUPID(answer.Data)
}
