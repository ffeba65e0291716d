// Package login simulates Dex 2.45, and the side of programs that send people to it: sign-in pages, the
// OpenID Connect flow with signed tokens, refreshing, and pages of Grafana and Rancher as far as a sign-in shows
// them, and Open WebUI behind OAuth2 Proxy and nginx.
//
// Dex's own people, of its configuration, have their passwords. GitHub, directories and other providers do not
// exist here: a page stands for each, and takes any name with any groups. A provider remembers the browser, so
// that it asks once; a directory, like Dex's own people, is asked at every sign-in, because Dex 2.45 remembers nobody.
package login
