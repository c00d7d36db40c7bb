"""The front end of the emulator: PTX text to `Module`."""
