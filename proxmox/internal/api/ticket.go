package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// session is the login of a user with a ticket.
type session struct {
	ticket, csrf string
	since        time.Time
}

// ticketAge is how long a ticket is used; Proxmox accepts it for two hours.
const ticketAge = 90 * time.Minute

// HasLogin reports whether the client can get a ticket.
func (c *Client) HasLogin() bool { return c.cfg.RootPassword != nil }

// PutAsRoot sends a PUT with a ticket instead of the token. If the password is correct but not
// enough, the error is [ErrSecondFactor].
func (c *Client) PutAsRoot(ctx context.Context, path string, form url.Values) error {
	c.root.Lock()
	defer c.root.Unlock()
	if c.session == nil || time.Since(c.session.since) > ticketAge {
		s, err := c.login(ctx)
		if err != nil {
			return err
		}
		c.session = s
	}
	defer c.glances.invalidate(path)
	return c.asRoot(ctx, http.MethodPut, path, form, c.session, nil)
}

// ErrSecondFactor says that a password is correct but not enough.
var ErrSecondFactor = errors.New("has a second factor")

// login exchanges the password for a ticket.
func (c *Client) login(ctx context.Context) (*session, error) {
	user := c.cfg.RootUser
	password, err := c.cfg.RootPassword(ctx)
	if err != nil {
		return nil, fmt.Errorf("password of %s: %w", user, err)
	}
	var answer struct {
		Ticket  string `json:"ticket"`
		CSRF    string `json:"CSRFPreventionToken"`
		NeedTFA any    `json:"NeedTFA"`
	}
	err = c.asRoot(ctx, http.MethodPost, "/access/ticket", url.Values{"username": {user}, "password": {password.Reveal()}}, nil, &answer)
	switch {
	case errors.Is(err, ErrUnauthorized):
		return nil, fmt.Errorf("proxmox: Proxmox does not accept %s with this password", user)
	case err != nil:
		return nil, err
	case answer.NeedTFA != nil || strings.HasPrefix(answer.Ticket, "PVE:!tfa!"):
		return nil, fmt.Errorf("proxmox: %s %w, which is not supported", user, ErrSecondFactor)
	case answer.Ticket == "" || answer.CSRF == "":
		return nil, fmt.Errorf("proxmox: Proxmox accepted %s but sent no ticket", user)
	}
	return &session{ticket: answer.Ticket, csrf: answer.CSRF, since: time.Now()}, nil
}

// asRoot sends a request with a ticket instead of the token. It does not retry: Proxmox sometimes
// drops the connection of the call after a login, and the caller checks whether the request was
// done.
func (c *Client) asRoot(ctx context.Context, method, path string, form url.Values, who *session, out any) error {
	if who != nil {
		if err := c.checkGuard(ctx); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if who != nil {
		req.AddCookie(&http.Cookie{Name: "PVEAuthCookie", Value: who.ticket})
		req.Header.Set("CSRFPreventionToken", who.csrf)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return plain(err)
	}
	defer func() { _ = res.Body.Close() }()
	if out == nil {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &struct{ Data any }{out}); err != nil {
		return fmt.Errorf("proxmox: %s %s: the answer is not from Proxmox VE", method, path)
	}
	return nil
}
