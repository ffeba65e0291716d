package proxmox

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

	"github.com/cps-gpu/homelab/secret"
)

// Login is a user with a password. Proxmox lets only root@pam itself set some
// options, and no token, not even root's: with a Login the client gets a ticket
// for those, and for nothing else.
type Login struct {
	User string // root@pam
	// Password is called when a ticket is needed, once. What it returns is sent to
	// Proxmox and not kept.
	Password func(context.Context) (secret.Value, error)
}

// session is who somebody with a ticket is.
type session struct {
	ticket, csrf string
	since        time.Time
}

// ticketAge is for how long a ticket is used; Proxmox takes it for two hours.
const ticketAge = 90 * time.Minute

// setAsRoot sets config keys of a VM that no token may set.
func (c *Client) setAsRoot(ctx context.Context, vm *VM, p params) error {
	if c.cfg.Login == nil {
		return rootError(vm, p)
	}
	c.root.Lock()
	defer c.root.Unlock()
	if c.session == nil || time.Since(c.session.since) > ticketAge {
		s, err := c.login(ctx)
		if errors.Is(err, errSecondFactor) {
			_, command := byHand(vm, p)
			return fmt.Errorf("proxmox: %s %w, which is not supported\n  run on %s: %s; or leave the option out", c.cfg.Login.User, err, vm.Host, command)
		}
		if err != nil {
			return err
		}
		c.session = s
	}
	form := url.Values{}
	for k, v := range p {
		form.Set(k, fmt.Sprint(v))
	}
	path := vmPath(vm.Host, vm.VMID, "config")
	defer c.glances.forget(path)
	return c.asRoot(ctx, http.MethodPut, path, form, c.session, nil)
}

// errSecondFactor is that a password is right and not enough.
var errSecondFactor = errors.New("has a second factor")

// rootError says what a token cannot do, and two ways to have it done.
func rootError(vm *VM, p params) error {
	keys, command := byHand(vm, p)
	return fmt.Errorf("proxmox: %s of %s: only root@pam itself may set this, not a token\n"+
		"  write user: root@pam below proxmox: in the file, with password: or without it to be asked; or run on %s: %s",
		strings.Join(keys, " and "), vm, vm.Host, command)
}

// byHand is what root types to set keys of a VM, and those keys.
func byHand(vm *VM, p params) (keys []string, command string) {
	var options []string
	for k, v := range p {
		switch {
		case rootKey(k):
			keys, options = append(keys, k), append(options, fmt.Sprintf("--%s %v", k, v))
		case k == "delete":
			keys, options = append(keys, fmt.Sprint(v)), append(options, fmt.Sprintf("--delete %v", v))
		}
	}
	return keys, fmt.Sprintf("qm set %d %s", vm.VMID, strings.Join(options, " "))
}

// login exchanges the password for a ticket.
func (c *Client) login(ctx context.Context) (*session, error) {
	user := c.cfg.Login.User
	password, err := c.cfg.Login.Password(ctx)
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
		return nil, errSecondFactor
	case answer.Ticket == "" || answer.CSRF == "":
		return nil, fmt.Errorf("proxmox: Proxmox accepted %s but sent no ticket", user)
	}
	return &session{ticket: answer.Ticket, csrf: answer.CSRF, since: time.Now()}, nil
}

// asRoot sends a request with a ticket instead of the token. It is not tried
// again: Proxmox at times drops the connection of the call after a login, and
// whoever asked looks whether it was done.
func (c *Client) asRoot(ctx context.Context, method, path string, form url.Values, who *session, out any) error {
	if who != nil {
		if err := c.may(ctx); err != nil {
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
