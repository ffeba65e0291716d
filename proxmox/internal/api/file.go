package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime/multipart"
	"net/http"
)

// SendFile sends the form of an upload, which starts a task. Proxmox reads the form by position,
// not by name: content, the checksum's algorithm, the checksum, the file, each with
// Content-Disposition as its first header, and nothing else. It requires Content-Length
// (PVE::APIServer::AnyEvent). go-proxmox's own upload neither keeps that order nor takes a ctx.
func (c *Client) SendFile(ctx context.Context, path, fileName string, data []byte) (UPID, error) {
	if err := c.checkGuard(ctx); err != nil {
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
	return ParseUPID(answer.Data)
}
