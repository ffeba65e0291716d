package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// request repeats a recorded request, with the names of this host.
func (r *replay) request(ctx context.Context, e exchange) (*http.Request, error) {
	body, kind, err := r.body(e)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, e.Method, "https://pve1:8006/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut("/api2/json"+r.ours(e.Path), "?")
	plain, err := url.PathUnescape(path)
	if err != nil {
		plain = path
	}
	req.URL.Path, req.URL.RawPath, req.URL.RawQuery = plain, path, query
	if body == nil {
		req.Body, req.ContentLength = nil, 0
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if e.Raw != nil {
		for k, v := range e.Raw.Headers {
			req.Header.Set(k, v)
		}
	}
	return req, r.authorize(ctx, req, e)
}

// body is a request's, and its type; nil where it has none.
func (r *replay) body(e exchange) ([]byte, string, error) {
	switch {
	case e.Upload != nil:
		return e.Upload.encode()
	case e.Raw != nil:
		var body []byte
		kind := ""
		if e.Raw.Body != nil {
			body = []byte(*e.Raw.Body)
		}
		if e.Raw.Type != nil {
			kind = *e.Raw.Type
		}
		return body, kind, nil
	case e.Method != http.MethodPost && e.Method != http.MethodPut:
		return nil, "", nil
	case e.JSONBody:
		body, err := json.Marshal(e.Params)
		return []byte(r.ours(string(body))), "application/json", err
	}
	form := url.Values{}
	for k, v := range e.Params {
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, one := range list {
			text := r.ours(fmt.Sprint(one))
			if word, ok := r.passwordFor(k, text); ok {
				text = word
			}
			form.Add(k, text)
		}
	}
	return []byte(form.Encode()), "application/x-www-form-urlencoded", nil
}

// passwordFor is a password where recordings have another's: those of the test
// daemons' users.
func (r *replay) passwordFor(param, text string) (string, bool) {
	_, who, named := strings.Cut(text, "-")
	if named && param == "password" && slices.Contains([]string{"root", "nobody", "k3s"}, who) {
		return "password-of-" + who, true
	}
	return "", false
}

// encode makes the multipart body that pveproxy wants.
func (u *sentFile) encode() ([]byte, string, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range u.Fields {
		if err := w.WriteField(f[0], f[1]); err != nil {
			return nil, "", err
		}
	}
	if u.Filename != nil {
		part, err := w.CreateFormFile("filename", *u.Filename)
		if err != nil {
			return nil, "", err
		}
		if _, err := part.Write(u.bytes()); err != nil {
			return nil, "", err
		}
	}
	err := w.Close()
	return b.Bytes(), w.FormDataContentType(), err
}

// bytes are what a file's data in words stand for.
func (u *sentFile) bytes() []byte {
	kind, rest, _ := strings.Cut(u.Data, " ")
	switch {
	case rest == "zeros":
		n, _ := strconv.Atoi(kind)
		return make([]byte, n)
	case u.Data == "tiny.qcow2":
		return tinyImage()
	case u.Data == "text":
		return []byte("not an image\n")
	case kind == "text":
		return []byte(rest)
	}
	return nil
}

// authorize puts on a request what the recorded one had: a token, or the cookie of
// a session, a broken one where the older record's was refused.
func (r *replay) authorize(ctx context.Context, req *http.Request, e exchange) error {
	who, isTicket := strings.CutPrefix(e.Auth, "ticket ")
	if !isTicket {
		if e.Auth != "" {
			req.Header.Set("Authorization", r.ours(e.Auth))
		}
		return nil
	}
	if r.tickets[who].ticket == "" {
		if err := r.login(ctx, who); err != nil {
			return err
		}
	}
	s := r.tickets[who]
	switch {
	case r.older && e.Reason == "Authentication failed!":
		s = session{ticket: "PVE:" + who + ":00::broken"}
	case e.Reason == "Permission denied - invalid csrf token":
		s.csrf = ""
	}
	req.AddCookie(&http.Cookie{Name: "PVEAuthCookie", Value: s.ticket})
	req.Header.Set("CSRFPreventionToken", s.csrf)
	return nil
}

// login makes the session that the recorder had before it began to record.
func (r *replay) login(ctx context.Context, who string) error {
	form := url.Values{"username": {who}, "password": {r.passwords[who]}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://pve1:8006/api2/json/access/ticket", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	got, err := r.send(req)
	r.remember(exchange{}, got)
	return err
}
