// Package conf reads what DTM 1.19 is started with: its command line, its environment and its configuration file. It knows every setting
// of that program and says what each is worth here. It starts nothing and opens no file but the one it is told to.
package conf
