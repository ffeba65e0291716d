package proxmox

import (
	"regexp"
	"strings"
)

// This file has Proxmox's messages about downloads. No other file parses them.

// downloadFailure is the reason why a download failed, as far as Proxmox reports it.
type downloadFailure int

const (
	downloadOther       downloadFailure = iota
	downloadTaken                       // another file of that name exists
	downloadDiffers                     // the download has another checksum
	downloadRefused                     // the server answered with an error
	downloadUntrusted                   // the server's certificate is not trusted
	downloadUnreachable                 // no answer
)

var (
	// Proxmox reports wget's last line, or its exit status if that line is empty (run_command in
	// PVE::Tools): 4 network, 5 certificate, 8 an error response.
	untrustedText   = regexp.MustCompile(`(?i)--no-check-certificate|cannot verify|exit code 5\b`)
	refusedText     = regexp.MustCompile(`(?i)ERROR \d{3}|exit code 8\b`)
	unreachableText = regexp.MustCompile(`(?i)unable to resolve|name resolution|connection refused|timed out|no route to host|network is unreachable|giving up|exit code 4\b`)
)

// saidDownload classifies the exit status of a download.
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
