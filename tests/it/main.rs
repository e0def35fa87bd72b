mod backends;
