package api

import (
	"context"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge/progress"
)

// DoShown is do for a task whose log tells how far it is: that is said under the name
// what.
func (c *Client) DoShown(ctx context.Context, method, path string, p Params, what string) error {
	upid, err := c.begin(ctx, method, path, p)
	if err != nil {
		return err
	}
	defer c.glances.forget(path)
	done := make(chan error, 1)
	go func() { done <- c.Wait(ctx, upid) }()
	begun, tick := time.Now(), time.NewTimer(shownEvery)
	defer tick.Stop()
	for read := 0; ; {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			tick.Reset(max(shownEvery, time.Since(begun)/10))
			var share string
			if share, read = c.share(ctx, upid, read); share != "" {
				progress.Say(ctx, "%s: %s", what, share)
			}
		}
	}
}

// shownEvery is how often the log of a task is read at first; of a long one, less often.
const shownEvery = 3 * time.Second

// share reads what is new in a task's log after so many lines, and returns the last
// share of the work that it tells, as in "34 %".
func (c *Client) share(ctx context.Context, upid UPID, after int) (share string, read int) {
	var lines []struct {
		N    int    `json:"n"`
		Text string `json:"t"`
	}
	query := url.Values{"start": {strconv.Itoa(after)}, "limit": {"500"}}
	if c.Get(ctx, NodePath(upid.Node, "tasks", upid.String(), "log"), query, &lines) != nil {
		return "", after // it is for the eye only
	}
	for _, l := range lines {
		if l.Text == "no content" {
			continue
		}
		after = max(after, l.N)
		if s := saidShare(l.Text); s != "" {
			share = s
		}
	}
	return share, after
}

// saidDots reports whether a line of a task's log is only how far the task was.
func saidDots(line string) bool { return strings.Contains(line, " ........ ") }

// saidShare returns how much of its work a line of a task's log says is done, as in
// "34 %": wget's dots and qemu-img's "transferred … of … (34.29%)".
func saidShare(line string) string {
	all := shareText.FindAllStringSubmatch(line, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1] + " %"
}

var shareText = regexp.MustCompile(`\b(\d{1,3})(?:\.\d+)?%`)
