// Package request reads what a request of the API says: its parameters, in every form in
// which they come, and the file of an upload.
package request
