package proxmox

import (
	"regexp"
	"strings"
)

// Here is what Proxmox says of downloads, and the only place that looks into it.

// Why a download failed, as far as Proxmox says.
type downloadFailure int

const (
	downloadOther       downloadFailure = iota
	downloadTaken                       // another file of that name is there
	downloadDiffers                     // what came has another checksum
	downloadRefused                     // the server answered with an error
	downloadUntrusted                   // the server's certificate
	downloadUnreachable                 // no answer
)

var (
	// Proxmox tells the last line that wget said, or its exit status where that was
	// empty (run_command in PVE::Tools): 4 network, 5 certificate, 8 an error response.
	untrustedText   = regexp.MustCompile(`(?i)--no-check-certificate|cannot verify|exit code 5\b`)
	refusedText     = regexp.MustCompile(`(?i)ERROR \d{3}|exit code 8\b`)
	unreachableText = regexp.MustCompile(`(?i)unable to resolve|name resolution|connection refused|timed out|no route to host|network is unreachable|giving up|exit code 4\b`)
)

// saidDownload sorts the exit status of a download.
func saidDownload(exit string) downloadFailure {
	switch {
	case strings.Contains(exit, "checksum mismatch: got") && strings.Contains(exit, "aborting"):
		return downloadTaken
	case strings.Contains(exit, "checksum mismatch: got"):
		return downloadDiffers
	case !strings.Contains(exit, "download failed"):
		return downloadOther
	case untrustedText.MatchString(exit):
		return downloadUntrusted
	case refusedText.MatchString(exit):
		return downloadRefused
	case unreachableText.MatchString(exit):
		return downloadUnreachable
	}
	return downloadOther
}
