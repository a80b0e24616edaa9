// Dropout where four elements move as one.

#import dropout/vectors
#import dropout/whole
