package simcheck

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

// differencesYAML says why answers differ from the recorded ones, by number.
//
//go:embed differences.yaml
var differencesYAML []byte

// Difference is an answer that is not the recorded one.
type Difference struct {
	Number int
	Asked  string
	What   []string
	Reason string // empty where nobody has explained it
}

// Conformance is what a replay has found.
type Conformance struct {
	Total       int // recorded exchanges
	Agree       int
	Differences []Difference
	Stale       []int // explained in differences.yaml, and not different
}

// enough is the share of answers that must agree, in percent.
const enough = 95

// Err tells whether too much differs, or something that nobody has explained.
func (c *Conformance) Err() error {
	var errs []error
	for _, d := range c.Differences {
		if d.Reason == "" {
			errs = append(errs, fmt.Errorf("#%d %s differs and differences.yaml does not say why:\n  %s", d.Number, d.Asked, strings.Join(d.What, "\n  ")))
		}
	}
	for _, n := range c.Stale {
		errs = append(errs, fmt.Errorf("differences.yaml explains #%d, which agrees", n))
	}
	if 100*c.Agree < enough*c.Total {
		errs = append(errs, fmt.Errorf("%d of %d answers agree; at least %d %% must", c.Agree, c.Total, enough))
	}
	return errors.Join(errs...)
}

// Print writes the result for people.
func (c *Conformance) Print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%d of %d recorded answers agree (%.1f %%).\n", c.Agree, c.Total, 100*float64(c.Agree)/float64(c.Total)); err != nil {
		return err
	}
	for _, d := range c.Differences {
		reason := d.Reason
		if reason == "" {
			reason = "NOT EXPLAINED"
		}
		if _, err := fmt.Fprintf(w, "\n#%d %s\n  %s\n  why: %s\n", d.Number, d.Asked, strings.Join(d.What, "\n  "), reason); err != nil {
			return err
		}
	}
	return nil
}

// replay is a simulated host on which the recorded exchanges are had again.
type replay struct {
	sim     *pvesim.Sim
	upids   map[string]string // theirs -> ours
	tickets map[string]session
	release func() // of a lock that was held when the record was made
	last    exchange
}

type session struct{ ticket, csrf string }

// Replay asks pvesim what was asked of real daemons. It takes the time that they
// took: call it within testing/synctest. When something was asked was not recorded, so
// lists are never behind here.
func Replay(ctx context.Context) (*Conformance, error) {
	exchanges, err := loadExchanges()
	if err != nil {
		return nil, err
	}
	reasons := map[int]string{}
	if err := yaml.Unmarshal(differencesYAML, &reasons); err != nil {
		return nil, fmt.Errorf("differences.yaml: %w", err)
	}
	r := &replay{sim: pvesim.New(recordedHost(), pvesim.Options{Internet: recordedInternet, StatusLag: -1}), upids: map[string]string{},
		tickets: map[string]session{}, release: func() {}}
	defer r.sim.Close()
	out := &Conformance{Total: len(exchanges)}
	for n, e := range exchanges {
		what, err := r.again(ctx, n, e)
		if err != nil {
			return nil, fmt.Errorf("#%d %s: %w", n, e, err)
		}
		switch {
		case len(what) > 0:
			out.Differences = append(out.Differences, Difference{Number: n, Asked: short(e.String()), What: what, Reason: reasons[n]})
		default:
			out.Agree++
			if reasons[n] != "" {
				out.Stale = append(out.Stale, n)
			}
		}
	}
	return out, nil
}

var encodedUPID = regexp.MustCompile(`UPID(%3A|:)[^/]*`)

func short(s string) string { return encodedUPID.ReplaceAllString(s, "UPID…") }

// again has one exchange again, and says what is different.
func (r *replay) again(ctx context.Context, n int, e exchange) ([]string, error) {
	// The recorder waited for what it had begun, but for a salvo of clones.
	if !strings.HasSuffix(e.Path, "/clone") || !strings.HasSuffix(r.last.Path, "/clone") {
		r.sim.Settle()
	}
	if err := r.unrecorded(ctx, n); err != nil {
		return nil, err
	}
	r.last = e
	path, err := url.PathUnescape(e.Path)
	if err != nil {
		return nil, err
	}
	for theirs, ours := range r.upids {
		path = strings.ReplaceAll(path, theirs, ours)
	}
	req, err := r.request(ctx, e, path)
	if err != nil {
		return nil, err
	}
	got, err := r.send(req)
	if err != nil {
		return nil, err
	}
	if theirs := dataOf(e.Body); strings.HasPrefix(theirs, "UPID:") && strings.HasPrefix(dataOf(got.Body), "UPID:") {
		r.upids[theirs] = dataOf(got.Body)
	}
	r.remember(got)
	return compare(e, got), nil
}

// dataOf is an answer's data where that is a text.
func dataOf(body string) string {
	var a struct{ Data any }
	if json.Unmarshal([]byte(body), &a) != nil {
		return ""
	}
	text, _ := a.Data.(string)
	return text
}

// remember keeps the ticket of a login.
func (r *replay) remember(got exchange) {
	var login struct {
		Data struct{ Username, Ticket, CSRFPreventionToken string }
	}
	if json.Unmarshal([]byte(got.Body), &login) == nil && login.Data.Ticket != "" {
		r.tickets[login.Data.Username] = session{login.Data.Ticket, login.Data.CSRFPreventionToken}
	}
}

func (r *replay) request(ctx context.Context, e exchange, path string) (*http.Request, error) {
	path, query, _ := strings.Cut(path, "?")
	target := url.URL{Scheme: "https", Host: "pve1:8006", Path: "/api2/json" + path}
	var body []byte
	kind := "application/x-www-form-urlencoded"
	form := url.Values{}
	for k, v := range e.Params {
		form.Set(k, strings.ReplaceAll(fmt.Sprint(v), recordedSum, sha256Of(tinyImage())))
	}
	switch {
	case e.Method == http.MethodGet || e.Method == http.MethodDelete:
		if query != "" {
			target.RawQuery = form.Encode()
		}
	case e.JSONBody:
		var err error
		if body, err = json.Marshal(e.Params); err != nil {
			return nil, err
		}
		kind = "application/json"
	case e.Method == http.MethodPost || e.Method == http.MethodPut:
		body = []byte(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, e.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == nil {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", kind)
	}
	r.authorize(req, e)
	return req, nil
}

// authorize puts on a request what the recorded one had: a token, or the cookie of
// a session, a broken one where it was refused.
func (r *replay) authorize(req *http.Request, e exchange) {
	who, isTicket := strings.CutPrefix(e.Auth, "ticket ")
	if !isTicket {
		if e.Auth != "" {
			req.Header.Set("Authorization", e.Auth)
		}
		return
	}
	s := r.tickets[who]
	switch e.Reason {
	case "Authentication failed!":
		s = session{ticket: "PVE:" + who + ":00::broken"}
	case "Permission denied - invalid csrf token":
		s.csrf = ""
	}
	req.AddCookie(&http.Cookie{Name: "PVEAuthCookie", Value: s.ticket})
	req.Header.Set("CSRFPreventionToken", s.csrf)
}

func (r *replay) send(req *http.Request) (exchange, error) {
	res, err := r.sim.Client().Do(req)
	if err != nil {
		return exchange{}, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	_, reason, _ := strings.Cut(res.Status, " ")
	return exchange{Method: req.Method, Path: req.URL.Path, Status: res.StatusCode, Reason: reason, Body: string(raw)}, err
}

// unrecorded does what was done between the recorded exchanges.
func (r *replay) unrecorded(ctx context.Context, n int) error {
	for _, u := range recordedUploads() {
		if n == u.before {
			upid, err := r.upload(ctx, u)
			if err != nil {
				return err
			}
			r.upids[u.upid] = upid
		}
	}
	const locks = "/var/lock/qemu-server/lock-"
	switch n {
	case 272: // a process of the tester's held locks
		r.release = r.sim.Hold(locks + "400.conf")
	case 273, 282:
		r.release()
		r.release = r.sim.Hold(locks + "900.conf")
	case 279:
		r.release = r.sim.Hold("pve1/var/lock/pve-manager/pve-storage-vmdata")
	case 285:
		r.release()
		r.release = r.sim.Hold("file-user_cfg")
	case 276, 286:
		r.release()
	case 289: // the daemon had been stopped
		r.sim.Fail(pvesim.Rule{Method: http.MethodPut, Path: "/nodes/pve1/qemu/400/config", Delay: 31 * time.Second})
	case 310:
		r.sim.AddMapping("pool", "", "node=pve1,path=0000:02:00.0,id=10de:20b5,iommugroup=14,subsystem-id=10de:1533",
			"node=pve1,path=0000:03:00.0,id=10de:2330,iommugroup=15,subsystem-id=10de:16c1")
	}
	return nil
}

// upload sends a file the way that pveproxy wants it, and returns the task.
func (r *replay) upload(ctx context.Context, u recordedUpload) (string, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fields := [][2]string{{"content", u.content}}
	if u.sum != "" {
		fields = append(fields, [2]string{"checksum-algorithm", "sha256"}, [2]string{"checksum", u.sum})
	}
	for _, f := range fields {
		if err := w.WriteField(f[0], f[1]); err != nil {
			return "", err
		}
	}
	part, err := w.CreateFormFile("filename", u.name)
	if err != nil {
		return "", err
	}
	if _, err := part.Write(u.data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://pve1:8006/api2/json/nodes/pve1/storage/local/upload", &b)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Authorization", u.auth)
	got, err := r.send(req)
	if err == nil && got.Status != http.StatusOK {
		err = fmt.Errorf("upload of %s: %d %s", u.name, got.Status, got.Reason)
	}
	r.sim.Settle()
	return dataOf(got.Body), err
}
