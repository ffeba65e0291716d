package machine

import (
	"context"
	"errors"
	"strings"
	"time"
)

// errPipeline is what waiting in a pipeline ends with under a simulated clock:
// the shell interpreter's pipes are the operating system's, and while one side
// reads from such a pipe, the clock of testing/synctest stands still.
var errPipeline = errors.New("waiting in a pipeline is not simulated under testing/synctest: write to a file instead")

// Wait waits for simulated time.
func (p *Proc) Wait(ctx context.Context, d time.Duration) error {
	if p.Piped && time.Now().Year() < 2010 { // synctest's clock begins in 2000
		return errPipeline
	}
	if !p.Sys.Pause(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// Poll waits until done, looking often at first and then once a second.
func (p *Proc) Poll(ctx context.Context, done func() bool) error {
	for d := 50 * time.Millisecond; !done(); d = min(2*d, time.Second) {
		if err := p.Wait(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// Seconds reads 5, 0.5, 2m, 1h, infinity.
func Seconds(s string) (time.Duration, error) {
	if s == "infinity" {
		return 1 << 62, nil
	}
	if strings.IndexByte("smhd", s[max(0, len(s)-1)]) < 0 {
		s += "s"
	}
	return time.ParseDuration(s)
}

// Download asks the internet. A machine without an address has none.
func (p *Proc) Download(ctx context.Context, url string) ([]byte, error) {
	if p.Sys.Config.Internet == nil || p.Box == nil && !p.Sys.Address().IsValid() {
		return nil, ErrNoInternet
	}
	if !p.Piped && p.Wait(ctx, 100*time.Millisecond) != nil {
		return nil, context.Cause(ctx)
	}
	return p.Sys.Config.Internet(url)
}

// ErrNoInternet is what a download ends with where there is no internet.
var ErrNoInternet = errors.New("Could not resolve host")
