package api

import (
	"context"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// DoWithProgress is Do for a task whose log shows its progress, which is reported under the name what.
func (c *Client) DoWithProgress(ctx context.Context, method, path string, p Params, what string) error {
	upid, err := c.startTask(ctx, method, path, p)
	if err != nil {
		return err
	}
	defer c.glances.invalidate(path)
	done := make(chan error, 1)
	go func() { done <- c.Wait(ctx, upid) }()
	begun, tick := time.Now(), time.NewTimer(progressInterval)
	defer tick.Stop()
	for read := 0; ; {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			tick.Reset(max(progressInterval, time.Since(begun)/10))
			var share string
			if share, read = c.share(ctx, upid, read); share != "" {
				converge.Progressf(ctx, "%s: %s", what, share)
			}
		}
	}
}

// progressInterval is the initial pause between reads of a task's log; for a long task the pauses grow.
const progressInterval = 3 * time.Second

// share reads the lines of a task's log that come after the given number, and returns the last
// progress in them, as in "34 %".
func (c *Client) share(ctx context.Context, upid UPID, after int) (share string, read int) {
	var lines []struct {
		N    int    `json:"n"`
		Text string `json:"t"`
	}
	query := url.Values{"start": {strconv.Itoa(after)}, "limit": {"500"}}
	if c.Get(ctx, NodePath(upid.Node, "tasks", upid.String(), "log"), query, &lines) != nil {
		return "", after // it is only for display
	}
	for _, l := range lines {
		if l.Text == "no content" {
			continue
		}
		after = max(after, l.N)
		if s := percentIn(l.Text); s != "" {
			share = s
		}
	}
	return share, after
}

// isProgressLine reports whether a line of a task's log shows only progress.
func isProgressLine(line string) bool { return strings.Contains(line, " ........ ") }

// percentIn returns the progress in a line of a task's log, as in "34 %": from wget's dots and
// qemu-img's "transferred … of … (34.29%)".
func percentIn(line string) string {
	all := shareText.FindAllStringSubmatch(line, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1] + " %"
}

var shareText = regexp.MustCompile(`\b(\d{1,3})(?:\.\d+)?%`)
