// Package connect turns URLs, and the folder of a rota up, into stores and sources.
package connect
